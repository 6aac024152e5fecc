// A hang leaves evidence: ranks that sleep or spin in a block, are stopped, are killed, or make other calls, on shm and Gloo.
// The run's folder then says who did not come to what, in which block and function; weft blame reads it.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/training.h"
#include "tests/support/wait_until.h"

namespace weft::evidence_test {
namespace {

using nlohmann::json;

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }
data = { name = "text", evaluation = 0.1 }
batch = { global = 8 }
run = { steps = 1000000, threads = 1, timeout_s = 2.0 }
)";

class Evidence : public TrainingTest {
 protected:
  Evidence() : TrainingTest(kRecipe) {}

  std::string run() const { return (folder_ / "run").string(); }

  /// Runs tests/cli/programs/hanging_rank.cpp; returns its error.
  std::string hang(int ranks, const std::string& backend, const std::string& way, int rank) const {
    const CommandResult result =
        run_weft({"run", "-n", std::to_string(ranks), "--", WEFT_HANGING_RANK, run(), backend, way, std::to_string(rank)},
                 {.deadline_s = 40});
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_LT(result.seconds, 30.0);
    return result.err;
  }

  json blame() const {
    const CommandResult result = run_weft({"blame", run(), "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }

  static void expect_has(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
  }

  void expect_files(int ranks, const std::vector<int>& missing = {}) const {
    for (int rank = 0; rank < ranks; ++rank) {
      const bool is_there = std::find(missing.begin(), missing.end(), rank) == missing.end();
      EXPECT_EQ(std::filesystem::exists(run() + "/stopped/rank-" + std::to_string(rank) + ".json"), is_there) << rank;
      EXPECT_EQ(std::filesystem::exists(run() + "/stopped/flight_recorder/rank_" + std::to_string(rank)), is_there) << rank;
    }
  }

  /// The newest event of the run.
  json last_event() const {
    std::istringstream lines(read_text(run() + "/events.jsonl"));
    json last;
    for (std::string line; std::getline(lines, line);) last = json::parse(line, nullptr, /*allow_exceptions=*/false);
    return last;
  }
  int64_t last_step() const {
    const std::string metrics = read_text(run() + "/metrics.jsonl");
    return json::parse(metrics.substr(metrics.rfind('\n', metrics.size() - 2) + 1))["step"];
  }

  /// A training on two ranks; sends one of them a signal once it trains, and returns the error.
  std::string train_and(int signal, int rank) {
    const TemporaryFolder output;
    const pid_t launcher = start_weft(train({"-n", "2", "--set", "run.folder=" + run()}), output.path());
    EXPECT_TRUE(wait_until([&] { return read_text(output / "out").find("loss") != std::string::npos; }, 60.0));
    std::ifstream children("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children");
    for (pid_t child = 0; children >> child;) {
      const std::string environment = '\0' + read_text("/proc/" + std::to_string(child) + "/environ");
      if (environment.find('\0' + ("RANK=" + std::to_string(rank)) + '\0') != std::string::npos) kill(child, signal);
    }
    EXPECT_NE(wait_for(launcher, 45.0), 0);
    return read_text(output / "err");
  }
};

TEST_F(Evidence, ABlockThatSleeps) {
  const std::string error = hang(2, "auto", "sleep", 1);
  expect_has(error, {"rank 1 (dp+shard 1 of 2)", "it is in forward of block 'layer.2', micro-batch 0, step 3",
                     "sleep_for_ever()", "weft blame " + run()});
  expect_files(2);
  const json told = blame();
  EXPECT_EQ(told["culprit"], 1);
  expect_has(told["text"],
             {"rank 1 (dp+shard 1 of 2) did not come to all_reduce sum of 20 float64 \"losses\" (call 7 of dp+shard)",
              "in which rank 0 has waited ",
              "forward of block 'layer.2', micro-batch 0, step 3, in (anonymous namespace)::sleep_for_ever()"});
  EXPECT_EQ(told["text"], read_text(run() + "/stopped/summary.txt").substr(0, told["text"].get<std::string>().size()));
  EXPECT_EQ(told["ranks"][0]["waits_for"], json::array({1}));
  EXPECT_GE(told["ranks"][0]["waited_s"], 1.9);
}

TEST_F(Evidence, ABlockThatSpinsAmongFourOnGloo) {
  hang(4, "gloo", "spin", 2);
  expect_files(4);
  const json told = blame();
  EXPECT_EQ(told["culprit"], 2);
  expect_has(told["text"], {"rank 2 (dp+shard 2 of 4) did not come to all_reduce sum of ", "in which ranks 0, 1, 3 have waited",
                            "forward of block 'layer.2'", "spin_for_ever()"});
}

TEST_F(Evidence, RanksThatWaitForEachOtherInDifferentGroups) {
  const std::string error = hang(2, "auto", "skip", 1);
  const json told = blame();
  EXPECT_EQ(told["culprit"], -1);
  expect_has(told["text"],
             {"1 (dp 1 of 2) in all_reduce sum of 3 float32 \"own\" for 0",
              "0 (dp+shard 0 of 2) in all_reduce sum of 20 float64", "rank 0 is in reduce_loss, step 3",
              "rank 1 is in forward of block 'layer.2'", "called from (anonymous namespace)::Hanging::forward()"});
  expect_files(2);
}

TEST_F(Evidence, ARankThatMakesAnotherCall) {
  const std::string error = hang(2, "gloo", "differ", 1);
  const json told = blame();
  for (const std::string& text : {error, told["text"].get<std::string>()}) {
    expect_has(text, {"do not match", "all_reduce sum of 3 float32 \"own\"", "all_reduce sum of 5 float32 \"own\""});
  }
  EXPECT_FALSE(told["differing"].empty());
  expect_files(2);
}

TEST_F(Evidence, AStoppedRank) {
  const std::string error = train_and(SIGSTOP, 1);
  expect_has(error, {"rank 1 ", "is stopped", "weft blame"});
  expect_files(2, {1});
  expect_has(blame()["text"], {"rank 1 (", "did not come to, or did not finish, ", "is stopped (kill -CONT resumes it)"});
  EXPECT_NE(read_text(run() + "/events.jsonl").find("\"kind\":\"hang\""), std::string::npos);
}

/// Without a folder for checkpoints: the records say how the run ended, and have its last steps.
TEST_F(Evidence, ARunThatIsInterrupted) {
  for (const int ranks : {1, 2}) {
    const TemporaryFolder output;
    std::filesystem::remove_all(run());
    const pid_t pid = start_weft(train({"-n", std::to_string(ranks), "--set", "run.folder=" + run()}), output.path());
    EXPECT_TRUE(wait_until([&] { return read_text(run() + "/metrics.jsonl").find("loss") != std::string::npos; }, 60.0));
    kill(pid, SIGINT);
    EXPECT_EQ(wait_for(pid, 45.0), 128 + SIGINT);
    const json end = last_event();
    EXPECT_EQ(end["event"], "end") << ranks;
    EXPECT_EQ(end["details"]["how"], "stopped");
    const std::string text = end["text"], begins = "ended by Ctrl-C after step ";
    ASSERT_EQ(text.substr(0, begins.size()), begins);
    EXPECT_GE(last_step(), std::stoll(text.substr(begins.size())) - 1) << text;
  }
}

TEST_F(Evidence, AKilledRank) {
  const std::string line = train_and(SIGKILL, 0);
  expect_has(line, {"rank 0: killed by signal 9", "weft blame " + run()});
  EXPECT_EQ(last_event()["event"], "error");
  expect_has(last_event()["text"], {"rank 0: killed by signal 9", "weft blame " + run()});
  expect_files(2, {0});
  expect_has(blame()["text"], {"rank 0 (", "did not come to, or did not finish, ", "died"});
}

TEST_F(Evidence, OlderEvidenceIsKeptAndDamagedFilesAreReported) {
  std::filesystem::create_directories(run() + "/stopped");
  std::ofstream(run() + "/stopped/rank-0.json") << "{";
  CommandResult result = run_weft({"blame", run()});
  EXPECT_EQ(result.status, 0) << result.err;
  expect_has(result.out, {"rank-0.json is damaged"});
  ASSERT_EQ(run_weft(train({"-n", "2", "--set", "run.folder=" + run(), "--set", "run.steps=1"})).status, 0);
  EXPECT_EQ(read_text(run() + "/stopped-1/rank-0.json"), "{");
  EXPECT_FALSE(std::filesystem::exists(run() + "/stopped"));
  result = run_weft({"blame", (folder_ / "none").string()});
  EXPECT_EQ(result.status, 1);
  expect_has(result.err, {"no evidence of a hang in"});
}

}  // namespace
}  // namespace weft::evidence_test
