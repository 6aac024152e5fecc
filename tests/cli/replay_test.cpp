// weft replay: a recorded step has the same bits, whatever the layout; a step that failed is found again from what it left.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/training.h"

namespace weft::replay_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 16, dropout = 0.1 }
data = { name = "text" }
batch = { global = 8, micro = 2 }
optimizer = { name = "adamw", lr = 3e-3, clip = 1.0 }
run = { steps = 5, threads = 1, seed = 3 }
)";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class WeftReplay : public TrainingTest {
 protected:
  WeftReplay() : TrainingTest(kRecipe) {}

  std::string run_folder() const { return (folder_ / "run").string(); }
  CommandResult trained(std::vector<std::string> more) const {
    more.insert(more.begin(), {"--set", "save.folder=" + run_folder()});
    return run_weft(train(more));
  }
  nlohmann::json replayed(std::vector<std::string> more) const {
    more.insert(more.begin(), {"replay", run_folder(), "--json"});
    const CommandResult result = run_weft(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }
  std::string records() const {
    return read_text(folder_ / "run" / "metrics.jsonl") + read_text(folder_ / "run" / "events.jsonl");
  }
};

TEST_F(WeftReplay, HasTheRunsBitsAndChangesNothing) {
  const struct {
    const char* ranks;
    std::vector<std::string> keys;
  } table[] = {{"1", {}},
               {"2", {"layout.shard=2", "layout.shard_level=parameters", "layout.precision=bf16"}},
               {"2", {"layout.pp=2", "layout.recompute=blocks"}},
               {"2", {"layout.tp=2"}}};
  for (const auto& row : table) {
    SCOPED_TRACE(row.keys.empty() ? "one" : row.keys.front());
    std::filesystem::remove_all(folder_ / "run");
    std::vector<std::string> more = {"-n", row.ranks, "--set", "save.every=2"};
    for (const std::string& key : row.keys) more.insert(more.end(), {"--set", key});
    const CommandResult result = trained(more);
    ASSERT_EQ(result.status, 0) << result.err;
    const std::string before = records();
    const nlohmann::json json = replayed({"--step", "4", "--steps", "2"});
    EXPECT_TRUE(contains(json.at("checkpoint"), "step-00000002"));
    EXPECT_EQ(std::to_string(json.at("ranks").get<int>()), row.ranks) << "as many as the run had";
    ASSERT_EQ(json.at("steps").size(), 2U);
    for (const nlohmann::json& step : json.at("steps")) {
      EXPECT_EQ(step.at("recorded"), "same bits as recorded: loss and gradient norm");
      EXPECT_TRUE(step.at("findings").empty());
      EXPECT_GE(step.at("ranges").size(), 8U) << "outputs and gradients of each block";
    }
    EXPECT_EQ(records(), before);
  }
}

TEST_F(WeftReplay, FindsTheStepThatFailed) {
  const CommandResult failed = trained({"-n", "2", "--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e25", "--set",
                                        "optimizer.clip=0", "--set", "optimizer.weight_decay=0"});
  EXPECT_NE(failed.status, 0);
  const std::string said = unwrapped(failed.err);
  EXPECT_TRUE(contains(said, "first not finite: rank ")) << said;
  EXPECT_TRUE(contains(said, "evidence in " + run_folder() + "/failed/step-00000002")) << said;
  const std::filesystem::path kept = folder_ / "run" / "failed" / "step-00000002";
  const nlohmann::json finding = nlohmann::json::parse(read_text(kept / "finding.json"));
  EXPECT_EQ(finding.at("step"), 2);
  EXPECT_TRUE(std::filesystem::exists(kept / "batch.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(kept / "step-00000001"));
  EXPECT_TRUE(contains(records(), R"("finding.block")")) << records();
  const nlohmann::json json = replayed({});
  EXPECT_EQ(json.at("steps").at(0).at("step"), 2);
  EXPECT_EQ(json.at("steps").at(0).at("findings").at(0), finding.at("findings").at(0));
}

TEST_F(WeftReplay, RefusesWhatItCannotReplay) {
  const CommandResult none = run_weft({"replay", (folder_ / "nothing").string()});
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(contains(unwrapped(none.err), "no checkpoint is there to replay from")) << none.err;
  ASSERT_EQ(trained({"--set", "save.every=4"}).status, 0);
  const CommandResult early = run_weft({"replay", run_folder(), "--step", "3"});
  EXPECT_EQ(early.status, 1);
  EXPECT_TRUE(contains(unwrapped(early.err), "step 3 needs the state before it, but the oldest checkpoint there is of step 4"))
      << early.err;
}

}  // namespace
}  // namespace weft::replay_test
