// weft train with a stopped rank (SIGSTOP): at its start, between steps, during an evaluation, with either store server. All
// ranks end soon after run.timeout_s, with one line that names the stopped rank.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "tests/cli/training.h"
#include "tests/support/wait_until.h"
#include "weft/base/loopback.h"

namespace weft::stopped_rank_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }
data = { name = "text", evaluation = 0.9 }
batch = { global = 8 }
run = { steps = 1000000, threads = 1, timeout_s = 3.0 }
)";

constexpr double kTimeout = 3.0;
constexpr double kSlack = 7.0;  // for busy machines

class StoppedRank : public TrainingTest {
 protected:
  StoppedRank() : TrainingTest(kRecipe) {}

  /// Process number of a rank that a launcher has started; 0 until it runs.
  static pid_t rank_of(pid_t launcher, int rank) {
    std::ifstream in("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children");
    const std::string wanted = '\0' + ("RANK=" + std::to_string(rank)) + '\0';
    for (pid_t child = 0; in >> child;) {
      if (('\0' + read_text("/proc/" + std::to_string(child) + "/environ")).find(wanted) != std::string::npos) return child;
    }
    return 0;
  }

  bool said(const std::filesystem::path& folder, const std::string& word) {
    return wait_until([&] { return read_text(folder / "out").find(word) != std::string::npos; }, 60.0);
  }

  /// Stops rank `rank` of two once `moment` has been printed, or at once.
  void stop(int rank, const std::string& moment, const std::vector<std::string>& overrides) {
    std::vector<std::string> arguments = {"-n", "2"};
    for (const std::string& value : overrides) arguments.insert(arguments.end(), {"--set", value});
    const TemporaryFolder folder;
    const pid_t launcher = start_weft(train(arguments), folder.path());
    ASSERT_TRUE(wait_until([&] { return rank_of(launcher, rank) != 0; }, 20.0));
    if (!moment.empty()) {
      ASSERT_TRUE(said(folder.path(), moment)) << read_text(folder / "err");
    }
    kill(rank_of(launcher, rank), SIGSTOP);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(wait_for(launcher, 45.0), 1);
    EXPECT_LT(seconds_since(start), kTimeout + kSlack);
    const std::string error = read_text(folder / "err");
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
    EXPECT_NE(error.find("rank " + std::to_string(rank)), std::string::npos) << error;
    EXPECT_FALSE(processes_left());
  }
};

TEST_F(StoppedRank, AtTheStart) { stop(0, "", {"layout.backend=gloo"}); }

TEST_F(StoppedRank, BetweenSteps) { stop(0, "step", {"layout.backend=gloo"}); }

// So much data that a rank on its own would compute for a minute before it waits for another.
TEST_F(StoppedRank, DuringAnEvaluation) {
  std::ofstream text(folder_ / "text");
  for (int i = 0; i < 200000; ++i) text << "line " << i << " of a text that repeats itself\n";
  text.close();
  stop(1, "step", {"run.evaluate_every=1"});
}

// Rank 0 serves the store itself; the other rank must not get stuck in it.
TEST_F(StoppedRank, WithExternallyStartedRanks) {
  const std::string port = std::to_string(free_loopback_port());
  const TemporaryFolder folders[2];
  pid_t ranks[2];
  for (int r = 0; r < 2; ++r) {
    ranks[r] = start_weft(
        train({"--set", "layout.backend=gloo"}), folders[r].path(),
        {.deadline_s = 60,
         .environment = {
             {"RANK", std::to_string(r)}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}}});
  }
  ASSERT_TRUE(said(folders[0].path(), "step")) << read_text(folders[0] / "err");
  kill(ranks[0], SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(wait_for(ranks[1], 45.0), 1);
  EXPECT_LT(seconds_since(start), kTimeout + kSlack);
  kill(ranks[0], SIGKILL);
  EXPECT_EQ(wait_for(ranks[0], 20.0), 128 + SIGKILL);
  const std::string error = read_text(folders[1] / "err");
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
  EXPECT_NE(error.find("rank 0"), std::string::npos) << error;
}

}  // namespace
}  // namespace weft::stopped_rank_test
