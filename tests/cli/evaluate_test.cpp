// weft evaluate: the same results as in training, for checkpoints and weights, on any number of ranks; rejected input.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/training.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/index_json.h"
#include "weft/checkpoint/storage/open_storage.h"

namespace weft::evaluate_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 16, dropout = 0.1 }
data = { name = "text" }
batch = { global = 8, micro = 2 }
optimizer = { name = "adamw", lr = 3e-3, clip = 1.0, ema = 0.5 }
run = { steps = 4, threads = 1, seed = 3, reproducible_slots = 4, evaluate = "both" }
)";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class WeftEvaluate : public TrainingTest {
 protected:
  WeftEvaluate() : TrainingTest(kRecipe) {}

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Trains the recipe on two ranks, which save their state in `saves` and the average in weights.safetensors; returns the
  /// summary.
  nlohmann::json trained(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = train({"-n", "2", "--set", "save.folder=" + path("saves"), "--save",
                                          path("weights.safetensors"), "--summary", path("trained.json")});
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult result = run_weft(all);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(read_text(folder_ / "trained.json"));
  }

  /// Output of `weft evaluate --json`; null, and a test failure, if it fails.
  static nlohmann::json evaluated(std::vector<std::string> more) {
    more.insert(more.begin(), "evaluate");
    more.emplace_back("--json");
    const CommandResult result = run_weft(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }
};

TEST_F(WeftEvaluate, MatchesTheTrainingOnAnyNumberOfRanks) {
  const nlohmann::json reported = trained();
  ASSERT_TRUE(reported.at("evaluation").at("averaged"));
  for (const char* ranks : {"1", "2", "3"}) {
    const nlohmann::json json = evaluated({path("saves"), "-n", ranks});
    EXPECT_EQ(json.at("evaluation"), reported.at("evaluation")) << ranks;
    EXPECT_EQ(json.at("other_evaluations"), reported.at("other_evaluations")) << ranks;
    EXPECT_EQ(json.at("steps_done"), 4);
    EXPECT_EQ(json.at("parameters"), reported.at("parameters"));
    EXPECT_TRUE(contains(json.at("weights"), "saves/step-00000004"));
    EXPECT_TRUE(json.at("recipe").is_null());
  }
}

TEST_F(WeftEvaluate, HasTheLinesOfATraining) {
  const nlohmann::json reported = trained({"--set", "run.evaluate=weights"});
  const CommandResult result = run_weft({"evaluate", path("saves/step-00000004"), "-n", "2", "--summary",
                                         path("evaluated.json"), "--set", "run.evaluate=weights"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(contains(result.out, "saves/step-00000004: gpt by its own recipe, 2 ranks\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "evaluation after step 4: loss ")) << result.out;
  EXPECT_TRUE(contains(result.out, "  perplexity ")) << result.out;
  const nlohmann::json summary = nlohmann::json::parse(read_text(folder_ / "evaluated.json"));
  EXPECT_EQ(summary.at("evaluation"), reported.at("evaluation"));
  EXPECT_EQ(summary.at("world"), 2);
  EXPECT_EQ(summary.at("skipped_data"), reported.at("skipped_data"));
}

TEST_F(WeftEvaluate, WeightsNeedARecipe) {
  const nlohmann::json reported = trained();
  const std::string data = "data.path=" + path("text");
  const nlohmann::json json = evaluated({path("weights.safetensors"), path("r.toml"), "--set", data});
  EXPECT_EQ(json.at("evaluation").at("loss"), reported.at("evaluation").at("loss")) << "the average was saved";
  EXPECT_TRUE(json.at("steps_done").is_null());
  EXPECT_EQ(json.at("recipe"), path("r.toml"));
  const CommandResult lines = run_weft({"evaluate", path("weights.safetensors"), path("r.toml"), "--set", data});
  EXPECT_TRUE(contains(lines.out, "\nevaluation: loss ")) << lines.out;
  // A checkpoint with another recipe and further evaluation sets.
  std::ofstream(folder_ / "other.toml") << kRecipe << "[[evaluation]]\nname = \"again\"\npath = \"" << path("text") << "\"\n";
  const nlohmann::json other = evaluated({path("saves"), path("other.toml"), "--set", data, "--set", "optimizer.name=sgd",
                                          "--set", "optimizer.ema=0", "--set", "run.evaluate=ema"});
  EXPECT_EQ(other.at("evaluation"), reported.at("evaluation")) << "regardless of its optimizer";
  EXPECT_TRUE(other.at("other_evaluations").contains("again"));
}

TEST_F(WeftEvaluate, TakesTheRunsLayoutWhereItFits) {
  const nlohmann::json reported = trained({"--set", "layout.tp=2"});
  const auto loss = [](const nlohmann::json& json) { return json.at("evaluation").at("loss").get<double>(); };
  EXPECT_EQ(loss(evaluated({path("saves"), "-n", "2"})), loss(reported)) << "split as it was";
  const CommandResult one = run_weft({"evaluate", path("saves")});
  EXPECT_TRUE(contains(one.out, "the run's mesh does not fit 1 rank: evaluated on replicas")) << one.out << one.err;
  EXPECT_NEAR(loss(evaluated({path("saves"), "-n", "2", "--set", "layout.tp=1", "--set", "layout.pp=2"})), loss(reported),
              1e-4);
  EXPECT_NEAR(loss(evaluated({path("saves"), "-n", "2", "--set", "layout.tp=1", "--set", "layout.shard_level=parameters"})),
              loss(reported), 1e-4);
  const CommandResult misfit = run_weft({"evaluate", path("saves"), "--set", "layout.pp=2"});
  EXPECT_EQ(misfit.status, 1);
  EXPECT_TRUE(contains(misfit.err, "does not divide the 1 ranks (-n)")) << misfit.err;
}

TEST_F(WeftEvaluate, SaysInOneLineWhatIsMissing) {
  trained();
  const auto refused = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "evaluate");
    const CommandResult result = run_weft(arguments);
    EXPECT_EQ(result.status, 1) << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_TRUE(contains(refused({path("weights.safetensors")}), "weights hold no recipe; name one: weft evaluate "));
  EXPECT_TRUE(contains(refused({path("nothing")}), path("nothing")));
  EXPECT_TRUE(contains(refused({path("saves"), "--set", "data.path=" + path("gone"), "-n", "2"}), path("gone")));
  EXPECT_TRUE(contains(refused({path("saves"), "--set", "model.layers=3"}), "model.layers is 2 there, 3 here"));
}

/// As the Python module and the C interface save: a run without data and metrics.
TEST_F(WeftEvaluate, KnowsCheckpointsOfPrograms) {
  trained();
  const std::unique_ptr<Storage> storage = open_storage(path("saves"));
  auto json = nlohmann::ordered_json::parse(read_text(path("saves/step-00000004/index.json")));
  auto& run = json["registered"]["run"];
  run.update({{"name", ""}, {"data", nlohmann::ordered_json::object()}});
  run["recipe"]["data.path"] = "program";
  complete_checkpoint(*storage, "step-00000004", parse_index(json.dump(), "test"));
  for (const char* command : {"list", "show"}) {
    const CommandResult result = run_weft({"checkpoint", command, path("saves")});
    EXPECT_TRUE(contains(result.out, "saved by a program after step 4\n")) << result.out << result.err;
  }
  const CommandResult refused = run_weft({"evaluate", path("saves")});
  EXPECT_EQ(refused.out, "");
  EXPECT_TRUE(contains(refused.err, "step-00000004: saved by a program, which has the data; load and evaluate it there"));
  evaluated({path("saves"), path("r.toml"), "--set", "data.path=" + path("text")});
}

}  // namespace
}  // namespace weft::evaluate_test
