// Offloaded runs that fail: one line with the reason, no rank left, no file left.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/training.h"

namespace weft::offload_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 2, heads = 2, width = 32, context = 16 }
data = { name = "text" }
batch = { global = 16 }
optimizer = { lr = 1e-3 }
layout = { shard_level = "parameters", recompute = "blocks", offload_optimizer = "disk", offload_parameters = "disk", offload_activations = "disk" }
run = { steps = 4, threads = 1 }
)";

class WeftOffload : public TrainingTest {
 protected:
  WeftOffload() : TrainingTest(kRecipe) { std::filesystem::create_directory(offloaded_); }
  void TearDown() override {
    TrainingTest::TearDown();
    if (std::filesystem::exists(offloaded_)) {
      EXPECT_TRUE(std::filesystem::is_empty(offloaded_)) << "a file was left behind";
    }
  }

  std::vector<std::string> train(std::vector<std::string> more) const {
    more.insert(more.end(), {"-n", "2", "--set", "layout.offload_folder=" + offloaded_.string()});
    return TrainingTest::train(more);
  }

  std::filesystem::path offloaded_ = folder_ / "offload";
};

int lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

TEST_F(WeftOffload, TrainsAndLeavesNothing) {
  const CommandResult result = run_weft(train({}));
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(WeftOffload, KilledRank) {
  const pid_t launcher = start_weft(train({"--set", "run.steps=1000000"}), folder_.path());
  for (int i = 0; i < 2000 && read_text(folder_ / "out").find("step") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::ifstream in("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children");
  pid_t victim = 0;
  for (pid_t child = 0; in >> child;) victim = std::max(victim, child);
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  EXPECT_EQ(wait_for(launcher, 10.0), 128 + SIGKILL) << read_text(folder_ / "err");
  EXPECT_EQ(lines(read_text(folder_ / "err")), 1) << read_text(folder_ / "err");
}

TEST_F(WeftOffload, LossThatIsNotFinite) {
  const CommandResult result = run_weft(train({"--set", "optimizer.lr=1e30"}));
  EXPECT_EQ(result.status, 4);
  EXPECT_EQ(lines(result.err), 1) << result.err;
}

TEST_F(WeftOffload, MissingFolder) {
  std::filesystem::remove(offloaded_);
  const CommandResult result = run_weft(train({}));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(
      result.err.find(offloaded_.string() + ": cannot create a scratch file: No such file or directory; name another folder"),
      std::string::npos)
      << result.err;
  EXPECT_EQ(lines(result.err), 1) << result.err;
}

TEST(WeftMemory, AsJsonForAnyNumberOfRanks) {
  const TemporaryFolder folder;
  std::ofstream(folder / "r.toml") << kRecipe;
  for (const char* ranks : {"1", "8", "4096"}) {
    const CommandResult result =
        run_weft({"memory", (folder / "r.toml").string(), "-n", ranks, "--set", "batch.global=4096", "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json.at("world"), std::stoi(ranks));
    int64_t sum = 0;
    for (const auto& [category, bytes] : json.at("bytes").items()) sum += bytes.get<int64_t>();
    EXPECT_EQ(json.at("sum"), sum);
  }
}

TEST(WeftMemory, ShowsTheOtherLevels) {
  const TemporaryFolder folder;
  std::ofstream(folder / "r.toml") << kRecipe;
  const std::string none = "layout.offload_parameters=none";
  const CommandResult result = run_weft({"memory", (folder / "r.toml").string(), "-n", "8", "--set", none});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("shard_level               parameters          none     optimizer     gradients"),
            std::string::npos)
      << result.out;
}

}  // namespace
}  // namespace weft::offload_test
