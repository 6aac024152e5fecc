// tests/cluster/slurm_test.py tests how sbatch and the shell run a script, on a cluster.
#include "weft/launch/slurm/batch_script.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "tests/support/refusal.h"
#include "weft/launch/shell_words.h"
#include "weft/launch/slurm/slurm_time.h"

namespace weft::batch_script_test {
namespace {

/// Returns a shell's reading of a command line.
std::string told_by_shell(const std::string& line) {
  FILE* const shell = popen(line.c_str(), "r");
  std::string text;
  std::array<char, 1024> part{};
  for (size_t got = 0; (got = fread(part.data(), 1, part.size(), shell)) > 0;) text.append(part.data(), got);
  pclose(shell);
  return text;
}

TEST(ShellWords, AShellReadsThemBack) {
  for (const std::string word : {"plain", "", "a b", "$HOME", "it's", "`id`", "a\\b", "\"q\"", "*", "~", "a\nb", "-n", "#x",
                                 "a;b&c|d", "!!", "{a,b}", "\xc3\xa9", "'", "''\\''"}) {
    EXPECT_EQ(told_by_shell("printf %s: " + shell_words({word, "end"})), word + ":end:");
  }
  EXPECT_EQ(shell_word("run.steps=3"), "run.steps=3");
}

TEST(SlurmTime, ReadsWhatSlurmReads) {
  EXPECT_EQ(slurm_seconds("90"), 5400);
  EXPECT_EQ(slurm_seconds("90:30"), 5430);
  EXPECT_EQ(slurm_seconds("4:00:00"), 4 * 3600);
  EXPECT_EQ(slurm_seconds("2-12"), 60 * 3600);
  EXPECT_EQ(slurm_seconds("2-12:30"), 60 * 3600 + 1800);
  EXPECT_EQ(slurm_seconds("2-12:30:15"), 60 * 3600 + 1815);
  EXPECT_EQ(slurm_seconds("UNLIMITED"), std::nullopt);
  for (const std::string damaged :
       {"", "0", "x", "1:", ":1", "1:2:3:4", "1-2:3:4:5", "-1", "1--2", "1 h", "99999999999999999999", "-", "1-"}) {
    EXPECT_NE(test::refusal([&] { slurm_seconds(damaged); }).find("not a time"), std::string::npos) << damaged;
  }
}

const BatchScript kScript = {.title = "Trains it",
                             .folder = "/home/me",
                             .job_name = "gpt",
                             .log = "",
                             .nodes = 2,
                             .ranks_per_node = 4,
                             .command = {"weft", "train", "r.toml"}};

TEST(BatchScript, IsOneThatAShellCanRun) {
  for (const bool launcher : {false, true}) {
    for (const int array : {0, 3}) {
      BatchScript script = kScript;
      script.launcher = launcher;
      script.array = array;
      script.cpus_per_task = 2;
      EXPECT_EQ(told_by_shell("bash -n 2>&1 <<'END'\n" + batch_script(script) + "END\n"), "");
    }
  }
}

TEST(BatchScript, RequestsWhatIsConfigured) {
  BatchScript script = kScript;
  script.options = {"--time=4:00:00", "--exclusive", "--comment=a \"b\" \\c"};
  script.signal_before_s = 90;
  const std::string text = batch_script(script);
  EXPECT_EQ(text.rfind("#!/bin/bash\n# Trains it\n#SBATCH --job-name=gpt\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n"
                       "#SBATCH --time=4:00:00\n#SBATCH --exclusive\n#SBATCH --comment=\"a \\\"b\\\" \\\\c\"\n",
                       0),
            0U)
      << text;
  for (const char* part : {"--signal=USR1@90\n", "--requeue\n", "--open-mode=append\n", "--output=%x-%j.log\n",
                           "scontrol requeue", "    weft train r.toml\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(text.find("--array"), std::string::npos);
  script.array = 8;
  const std::string of_array = batch_script(script);
  EXPECT_NE(of_array.find("#SBATCH --array=1-8%1\n"), std::string::npos);
  EXPECT_EQ(of_array.find("scontrol requeue"), std::string::npos);
}

TEST(BatchScript, RefusesWhatWouldBreakTheLine) {
  BatchScript script = kScript;
  script.job_name = "a\n#SBATCH --nodes=99";
  EXPECT_NE(test::refusal([&] { batch_script(script); }).find("control characters"), std::string::npos);
}

}  // namespace
}  // namespace weft::batch_script_test
