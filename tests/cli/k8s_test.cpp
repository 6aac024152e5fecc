// weft k8s: what it uses from the recipe and the command line, and what it rejects.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/training.h"

namespace weft::k8s_test {
namespace {

constexpr const char* kRecipe = R"(model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 16 }
data = { name = "text" }
batch = { global = 16 }
run = { steps = 2, threads = 3 })";

class WeftK8s : public TrainingTest {
 protected:
  WeftK8s() : TrainingTest(kRecipe) {}

  CommandResult k8s(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"k8s", (folder_ / "r.toml").string(), "--image", "example/weft"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run_weft(all);
  }
  std::string manifest(const std::vector<std::string>& arguments) const {
    const CommandResult result = k8s(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
  std::string refusal(const std::vector<std::string>& arguments, int status = 1) const {
    const CommandResult result = k8s(arguments);
    EXPECT_EQ(result.status, status) << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(WeftK8s, TakesSizesFromTheRecipe) {
  const std::string text = manifest({"--nodes", "2", "-n", "2", "--name", "a"});
  for (const char* line : {"completions: 2\n", "- --ranks=2 ", "- --nodes=2 ", "- --head=a-0.a:29500\n", "- --restarts=3 ",
                           "cpu: \"6\"\n", "terminationGracePeriodSeconds: 30 ", "# save.folder is not set",
                           "# data.path is not set", "    run = { steps = 2, threads = 3 }\n"}) {
    EXPECT_TRUE(contains(text, line)) << line << " is not in\n" << text;
  }
  EXPECT_TRUE(contains(text, "memory: \"3Gi\"  # an upper bound: 51")) << text;
  EXPECT_TRUE(contains(manifest({"--nodes", "2", "-n", "2", "--shared-memory", "8Gi"}), "memory: \"10Gi\""));
  const std::string saving =
      manifest({"--nodes", "2", "--gpus", "4", "--storage", "1Gi", "--set", "save.folder=runs/a", "--set",
                "save.deadline_s=119.5", "--set", "run.restarts=7", "--memory", "64Gi", "--cpus", "500m"});
  for (const char* line :
       {"terminationGracePeriodSeconds: 150 ", "- --restarts=7 ", "nvidia.com/gpu: 4\n", "memory: \"64Gi\"\n",
        "cpu: \"500m\"\n", "- --set=save.folder=runs/a\n", "# save.folder runs/a: /work/runs/a of the volume"}) {
    EXPECT_TRUE(contains(saving, line)) << line << " is not in\n" << saving;
  }
}

TEST_F(WeftK8s, ItsTokenIsAnotherEachTime) {
  const auto token = [](const std::string& text) { return text.substr(text.find("\n  token: "), 10 + 64); };
  const std::string one = manifest({"--nodes", "1", "-n", "1"}), other = manifest({"--nodes", "1", "-n", "1"});
  EXPECT_NE(token(one), token(other));
  const std::string given = manifest({"--nodes", "1", "-n", "1", "--token-secret", "mine"});
  EXPECT_FALSE(contains(given, "kind: Secret\n")) << given;
  EXPECT_TRUE(contains(given, "                  name: mine\n")) << given;
}

TEST_F(WeftK8s, RefusesWhatCannotRun) {
  EXPECT_TRUE(contains(refusal({"--nodes", "2"}, 2), "--gpus")) << refusal({"--nodes", "2"}, 2);
  refusal({"--nodes", "2", "-n", "1", "--gpus", "1"}, 2);
  refusal({"--nodes", "0", "-n", "1"}, 2);
  EXPECT_TRUE(contains(refusal({"--nodes", "3", "-n", "1"}), "batch.global"));  // as `weft train` does
  EXPECT_TRUE(contains(refusal({"--nodes", "2", "-n", "1", "--set", "save.folder=runs"}), "save.folder runs: a relative path"));
  EXPECT_TRUE(contains(refusal({"--nodes", "2", "-n", "1", "--data", "corpus"}), "--data corpus: write CLAIM:/FOLDER"));
  EXPECT_TRUE(contains(refusal({"--nodes", "2", "-n", "1", "--name", "A"}), "--name A: "));
  EXPECT_TRUE(contains(refusal({"--nodes", "2", "-n", "1", "--set", "run.resume=none"}),
                       "run.resume = \"none\", a pod that restarts would not resume"));
  EXPECT_TRUE(contains(refusal({"--nodes", "2", "-n", "1", "--namespace", std::string(120'000, 'a')}), "--namespace aaa"));
}

}  // namespace
}  // namespace weft::k8s_test
