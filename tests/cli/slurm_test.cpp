// weft slurm: what it rejects, and what it writes. Its scripts run on a cluster in tests/cluster/slurm_test.py.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/training.h"

namespace weft::slurm_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }
data = { name = "text" }
batch = { global = 16 }
run = { steps = 6 }
save = { folder = "runs" }
)";

class WeftSlurm : public TrainingTest {
 protected:
  WeftSlurm() : TrainingTest(kRecipe) {}

  CommandResult slurm(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"slurm", (folder_ / "r.toml").string(), "-N", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return run_weft(all);
  }
};

TEST_F(WeftSlurm, WritesAScriptToAFileOrStandardOutput) {
  const CommandResult reported = slurm({"--ntasks-per-node", "4", "--set", "run.name=it's $HOME"});
  EXPECT_EQ(reported.status, 0) << reported.err;
  EXPECT_EQ(reported.err, "");
  EXPECT_EQ(reported.out.rfind("#!/bin/bash\n# Trains ", 0), 0U) << reported.out;
  for (const std::string& part : {std::string("on 2 nodes with 4 ranks each"), std::string("#SBATCH --job-name=r\n"),
                                  std::string("#SBATCH --signal=USR1@120\n"), std::string(" 'run.name=it'\\''s $HOME' "),
                                  "#SBATCH --chdir=" + std::filesystem::current_path().string()}) {
    EXPECT_NE(reported.out.find(part), std::string::npos) << part << " in " << reported.out;
  }
  const std::string file = (folder_ / "job.sbatch").string();
  EXPECT_EQ(slurm({"--ntasks-per-node", "4", "--set", "run.name=it's $HOME", "-o", file}).status, 0);
  EXPECT_EQ(read_text(file), reported.out);
}

TEST_F(WeftSlurm, OneTaskPerNodeStartsItsRanks) {
  const CommandResult reported = slurm({"-n", "4", "--restarts", "3", "--health-port", "9090", "--health-address", "0.0.0.0"});
  EXPECT_EQ(reported.status, 0) << reported.err;
  for (const char* part : {"#SBATCH --ntasks-per-node=1\n", "#SBATCH --cpus-per-task=4\n",
                           " train -n 4 --restarts 3 --health-port 9090 --health-address 0.0.0.0 ", "\nrestarts=0 # "}) {
    EXPECT_NE(reported.out.find(part), std::string::npos) << part << " in " << reported.out;
  }
}

TEST_F(WeftSlurm, AnImageHasTheGpusOfTheJob) {
  const std::vector<std::pair<std::vector<std::string>, bool>> cases = {
      {{"--gpus-per-node", "a100:4"}, true},
      {{"--gpus-per-node", "all"}, true},
      {{"--sbatch=--gres=gpu:4"}, true},
      {{"--sbatch=--gpus=8"}, true},
      {{"--sbatch=--gres=license:4"}, false},
      {{}, false},
      {{"--sbatch=--gres=gpu:4", "--set", "run.device=cpu"}, false},
  };
  for (const auto& [more, has_gpus] : cases) {
    std::vector<std::string> all = {"--ntasks-per-node", "4", "--image", "weft.sif"};
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult reported = slurm(all);
    EXPECT_EQ(reported.status, 0) << reported.err;
    EXPECT_NE(reported.out.find(has_gpus ? "apptainer exec --nv weft.sif" : "apptainer exec weft.sif"), std::string::npos)
        << reported.out;
  }
}

TEST_F(WeftSlurm, RefusesWhatWouldFailOnTheCluster) {
  struct Case {
    std::vector<std::string> arguments;
    int status;
    std::string text;
  };
  const Case cases[] = {
      {{"--set", "save.folder="}, 1, "r.toml: save.folder is not set, so a job that runs out of time would start over"},
      {{"--set", "run.resume=none"}, 1, "run.resume = \"none\""},
      {{"--set", "save.deadline_s=300", "--signal-before", "200"}, 1, "--signal-before 200: shorter than the time a run"},
      {{"--set", "save.memory_every=2", "--set", "run.restarts=1"},
       1,
       "save.memory_every keeps copies in launcher-owned memory"},
      {{"--time", "3"}, 1, "--time 3: the signal to save, 120 s before the end, would come in the first half of the job"},
      {{"--time", "soon"}, 1, "--time soon: not a time"},
      {{"--ntasks-per-node", "5"}, 1, "batch.global"},
      {{"--gpus-per-node", "8"},
       1,
       "--gpus-per-node 8: a rank takes one GPU, but a node has 1 rank; use --ntasks-per-node 8, or -n 8"},
      {{"--gpus-per-node", "a100:2,h100:1", "-n", "4"},
       1,
       "--gpus-per-node a100:2,h100:1: a rank takes one GPU, but a node has 4"},
      {{"--gpus-per-node", "1", "--set", "run.device=cpu"}, 1, "r.toml sets run.device = \"cpu\", so its ranks take none"},
      {{"--sbatch", "exclusive"}, 1, "--sbatch exclusive: not an option of sbatch"},
      {{"--job-name", "a\nb"}, 1, "control characters"},
      {{"-o", (folder_ / "r.toml").string()}, 1, "are the same file"},
      {{"--ntasks-per-node", "2", "-n", "2"}, 2, "excludes"},
      {{"--array", "3", "--requeues", "5"}, 2, "excludes"},
      {{"--nodes", "0"}, 2, "--nodes"},
  };
  for (const Case& test : cases) {
    const CommandResult result = slurm(test.arguments);
    EXPECT_EQ(result.status, test.status) << test.text << ": " << result.err;
    EXPECT_NE(result.err.find(test.text), std::string::npos) << test.text << " in " << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace weft::slurm_test
