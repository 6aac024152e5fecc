// Whole runs from recipes on the checked device, with what a run does besides steps: loaders with pinned memory, evaluations,
// averages, checkpoints in the background, snapshots in memory. Nothing is said of any, and the bits are the CPU's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <ostream>
#include <regex>
#include <string>
#include <vector>

#include "tests/data/npy_file.h"
#include "tests/data/temp_folder.h"
#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/base/run_board.h"
#include "weft/checked_device.h"
#include "weft/nn/operators_path.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/train.h"

namespace weft::device_runs_test {
namespace {

using Keys = std::vector<std::string>;

struct Row {
  const char* name;
  const char* data;  ///< "images", "text" or "arrays"
  Keys keys;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const Row kRows[] = {
    {"mlp", "images", {"model.name=mlp", "model.layers=1", "run.evaluate_every=1", "data.workers=2"}},
    {"resnet", "images", {"model.name=resnet", "model.depth=8", "model.width=4", "run.evaluate_every=2"}},
    {"resnet_synchronised",
     "images",
     {"model.name=resnet", "model.depth=8", "model.width=4", "layout.sync_batch_norm=all", "run.reproducible_slots=0"}},
    {"augmented", "images", {"model.name=cnn", "model.width=4", "data.flip=true", "data.crop_padding=2", "data.mixup=0.2"}},
    {"weighted",
     "images",
     {"model.name=mlp", "model.class_weights=1, 2, 0.5, 3, 1, 0, 1, 1, 4, 0.25", "model.label_smoothing=0.1",
      "run.evaluate_every=2"}},
    {"squares", "arrays", {"model.loss=mean_squares", "run.evaluate_every=2"}},
    {"huber", "arrays", {"model.loss=" WEFT_SOURCE "/tests/exported/programs/huber.pt2", "run.evaluate_every=2"}},
    {"averages", "text", {"optimizer.ema=0.9", "run.evaluate=both", "run.evaluate_every=2"}},
    {"averages_offloaded",
     "text",
     {"optimizer.ema=0.9", "run.evaluate=both", "run.evaluate_every=2", "layout.shard=2", "layout.shard_level=parameters",
      "layout.recompute=blocks", "layout.offload_optimizer=host", "layout.offload_parameters=host",
      "layout.offload_activations=host"}},
    {"pipeline", "text", {"layout.pp=2", "layout.schedule=zb-h1", "run.evaluate_every=2"}},
    {"packed_llama", "text", {"model.name=llama", "data.pack=documents", "run.evaluate_every=2"}},
    {"scaled", "text", {"layout.precision=fp16", "run.reproducible_slots=0", "run.evaluate_every=2"}},
    {"noise_scale", "text", {"run.noise_scale=true", "run.reproducible_slots=0", "batch.micro=2"}},
    {"checkpoints", "text", {"save.every=1", "save.keep_best=evaluation loss", "run.evaluate_every=2", "optimizer.ema=0.9"}},
};

class DeviceRuns : public testing::TestWithParam<Row> {
 protected:
  DeviceRuns() {
    const auto number = [](int value) { return std::string("\0\0\0", 3) + static_cast<char>(value); };
    for (const auto& [part, count] : {std::pair{"train", 48}, {"t10k", 12}}) {
      std::string images = std::string("\0\0\x08\x03", 4) + number(count) + number(28) + number(28);
      std::string labels = std::string("\0\0\x08\x01", 4) + number(count);
      for (int i = 0; i < count * 28 * 28; ++i) images += static_cast<char>(i * i % 251);
      for (int i = 0; i < count; ++i) labels += static_cast<char>(i * 7 % 10);
      folder_.write(fmt::format("{}-images-idx3-ubyte", part), images);
      folder_.write(fmt::format("{}-labels-idx1-ubyte", part), labels);
    }
    const auto floats = [](size_t count) {
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * i % 97) / 97.0F;
      return std::string(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
    };
    folder_.write("inputs.npy", test::npy_of("<f4", "40, 3, 12", floats(1440)));
    folder_.write("targets.npy", test::npy_of("<f4", "40, 2, 12", floats(960)));
    std::string rows;
    for (int i = 0; i < 60; ++i) rows += fmt::format("{{\"text\": \"row {} of {}\"}}\n", i, std::string(i % 19, 'x'));
    folder_.write("rows.jsonl", rows);
  }

  Recipe recipe(const Row& row, const Keys& more) const {
    const std::map<std::string, std::string> models = {
        {"images", "name = \"mlp\", width = 16"},
        {"text", "name = \"gpt\", layers = 2, heads = 2, width = 16, context = 24"},
        {"arrays", "name = \"exported\", path = \"" WEFT_SOURCE "/tests/exported/programs/fields.pt2\", inputs = \"arrays\""}};
    Keys keys = row.keys;
    keys.insert(keys.end(), more.begin(), more.end());
    const bool is_text = std::string(row.data) == "text";
    return parse_recipe(
        fmt::format("data = {{ name = \"{}\", path = \"{}\" }}\nmodel = {{ {} }}\n", is_text ? "jsonl" : row.data,
                    is_text ? folder_.file("rows.jsonl") : folder_.path().string(), models.at(row.data)) +
            "batch = { global = 8 }\noptimizer = { lr = 0.01, clip = 1.0 }\n"
            "run = { steps = 4, threads = 1, reproducible_slots = 4 }",
        "r.toml", keys);
  }

  static FinalReport run(int ranks, const Recipe& recipe, const TrainOptions& options = {}) {
    on_device({});
    FinalReport report;
    test::run_ranks(ranks, [&](const World& world) {
      std::optional<ForcedOperators> operators;
      std::optional<checked_device::OwnDevice> own;
      recipe.run.device == "cpu" ? void(operators.emplace()) : void(own.emplace(world.rank()));
      FinalReport mine = train(recipe, world, options);
      if (world.rank() == 0) report = std::move(mine);
    });
    return report;
  }

  test::TempFolder folder_;
};

void expect_same(const FinalReport& there, const FinalReport& here) {
  EXPECT_EQ(there.weights_sha256, here.weights_sha256);
  EXPECT_EQ(there.average_sha256, here.average_sha256);
  EXPECT_EQ(there.loss, here.loss);
  ASSERT_TRUE(there.evaluation && here.evaluation);
  EXPECT_EQ(there.evaluation->loss, here.evaluation->loss);
  EXPECT_EQ(there.evaluation->accuracy, here.evaluation->accuracy);
}

TEST_P(DeviceRuns, HaveTheBitsOfTheCpu) {
  said_of_device();
  const auto run_on = [&](const std::string& device) {
    Keys keys = {"run.device=" + device};
    if (std::string(GetParam().name) == "checkpoints") keys.push_back("save.folder=" + folder_.file(device));
    return run(2, recipe(GetParam(), keys));
  };
  const FinalReport there = run_on("auto");
  EXPECT_EQ(said_of_device(), "");
  EXPECT_EQ(there.peak_device_mb.size(), 2U);
  expect_same(there, run_on("cpu"));
}

INSTANTIATE_TEST_SUITE_P(Table, DeviceRuns, testing::ValuesIn(kRows), [](const auto& info) { return info.param.name; });

using DeviceRun = DeviceRuns;
const Row kGpt{"gpt", "text", {"run.device=auto"}};

/// The board is the launcher's; the run after it is what a restart would do.
TEST_F(DeviceRun, ResumesFromASnapshotInMemory) {
  RunBoard board(2);
  said_of_device();
  const Recipe snapshots = recipe(kGpt, {"save.memory_every=1", "run.restarts=1", "run.evaluate_every=2"});
  const FinalReport whole = run(2, snapshots, {.board = &board});
  const FinalReport resumed = run(2, snapshots, {.board = &board});
  EXPECT_EQ(said_of_device(), "");
  EXPECT_EQ(resumed.resumed_from, 3);
  expect_same(resumed, whole);
  expect_same(whole, run(2, recipe(kGpt, {"run.device=cpu", "run.evaluate_every=2"})));
}

/// Once, for losses, numbers of targets, ids out of range and the norm or largest gradient, when the device runs the next step
/// already. Samples come through pinned memory: nothing waits for their copies.
TEST_F(DeviceRun, StepsWaitForTheirResultsAlone) {
  using Waits = std::map<std::string, uint64_t>;
  for (const char* key : {"optimizer.clip=0", "optimizer.name=sgd", "optimizer.name=lars", "optimizer.name=lamb",
                          "optimizer.name=lion", "optimizer.name=rmsprop", "optimizer.name=adagrad", "optimizer.name=muon",
                          "optimizer.name=adafactor", "optimizer.ema=0.9", "layout.precision=bf16", "data.pack=documents"}) {
    std::vector<Waits> waits;
    std::vector<uint64_t> stalls;
    run(1, recipe(kGpt, {key}), {.on_step = [&](const StepReport&) {
          waits.push_back(checked_device::synchronisations());
          stalls.push_back(checked_device::counts()[""].stalls);
          checked_device::reset_counts();
        }});
    ASSERT_EQ(waits.size(), 4U);
    EXPECT_EQ(waits[1], (Waits{{"a wait for an event", 1}})) << key;
    EXPECT_EQ(stalls[1], 0U) << key;
  }
}

/// Its results are late on the device, but no later than the error. What fails is asked once a step, or twice.
TEST_F(DeviceRun, ReportsTheStepsBeforeOneThatFails) {
  for (const int ranks : {1, 2}) {
    const auto steps_reported_on = [&](const std::string& device) {
      const Recipe saved =
          recipe(kGpt, {"run.device=" + device, "save.folder=" + folder_.file(device + std::to_string(ranks))});
      int steps = 0;
      TrainOptions options{.on_step = [&](const StepReport& step) { steps = static_cast<int>(step.step); }};
      options.stop_asked = [] {
        thread_local int asked = 0;
        if (++asked == 3) throw InputError("nobody answers");
        return false;
      };
      EXPECT_THROW(run(ranks, saved, options), test::RankError);
      return steps;
    };
    const int expected = steps_reported_on("cpu");
    EXPECT_GE(expected, 1);
    EXPECT_EQ(steps_reported_on("auto"), expected) << ranks << " ranks";
  }
}

/// Nor do layers in between, where ranks normalise their samples together.
TEST_F(DeviceRun, LayersOverRanksDoNotWait) {
  const Keys keys = {"model.name=resnet", "model.depth=8", "model.width=4", "run.reproducible_slots=0",
                     "layout.sync_batch_norm=all"};
  int steps = 0;
  run(2, recipe({"resnet", "images", {"run.device=auto"}}, keys), {.on_step = [&](const StepReport&) {
        if (++steps > 1) {
          EXPECT_EQ(checked_device::synchronisations().count("aten::_local_scalar_dense"), 0U) << steps;
        }
        checked_device::reset_counts();
      }});
  EXPECT_EQ(steps, 4);
}

/// Launches of an operator by a step.
struct Launches {
  const char* model;
  const char* what;
  uint64_t of_layer;  ///< forward and backward of one more layer
  uint64_t of_rest;   ///< with no layer
};
constexpr Launches kLaunches[] = {
    {"gpt", "weft::norm", 2, 1},
    {"gpt", "weft::norm_gradients", 2, 1},
    {"gpt", "weft::norm_again", 0, 0},
    {"gpt", "weft::activation", 1, 0},
    {"gpt", "weft::activation_gradients", 1, 0},
    {"gpt", "aten::add.Tensor", 1, 1},
    {"gpt", "aten::add_.Tensor", 0, 0},
    {"gpt", "aten::sum.IntList_out", 4, 0},
    {"gpt", "aten::addmm", 4, 0},
    {"gpt", "aten::_foreach_copy_", 1, 2},
    {"gpt", "aten::clamp", 0, 0},
    {"gpt", "weft::clamp_ids", 0, 2},
    {"gpt", "weft::put_losses", 0, 1},
    {"gpt", "aten::_fused_adamw_", 0, 2},
    {"llama", "weft::norm", 2, 1},
    {"llama", "weft::norm_gradients", 2, 1},
    {"llama", "weft::activation", 1, 0},
    {"llama", "weft::activation_gradients", 1, 0},
    {"llama", "weft::turn", 4, 0},
    {"llama", "aten::add.Tensor", 1, 0},
    {"llama", "aten::cos", 0, 1},
    {"llama", "weft::clamp_ids", 0, 2},
    {"llama", "aten::_foreach_copy_", 1, 2},
    {"packed", "aten::_flash_attention_forward", 1, 0},  // of all documents
    {"packed", "aten::_flash_attention_backward", 1, 0},
    {"packed", "aten::cat", 0, 0},
};

TEST_F(DeviceRun, LaunchesNoMoreOperatorsThanItsLayersNeed) {
  using Counts = std::map<std::string, uint64_t>;
  const auto launches_of = [this](const std::string& model, int layers) {
    std::vector<Counts> steps;
    Keys keys = {fmt::format("model.layers={}", layers), "batch.micro=8", "run.reproducible_slots=0", "optimizer.clip=0"};
    if (model != "gpt") keys.push_back("model.name=llama");
    if (model == "packed") keys.insert(keys.end(), {"data.pack=documents", "layout.precision=bf16"});
    const Recipe some = recipe(kGpt, keys);
    run(1, some, {.on_step = [&](const StepReport&) {
          steps.push_back(checked_device::launches());
          checked_device::reset_counts();
        }});
    return steps.at(2);
  };
  for (const std::string model : {"gpt", "llama", "packed"}) {
    Counts two = launches_of(model, 2), three = launches_of(model, 3);
    for (const Launches& row : kLaunches) {
      if (row.model != model) continue;
      EXPECT_EQ(three[row.what] - two[row.what], row.of_layer) << model << ": " << row.what;
      EXPECT_EQ(two[row.what], 2 * row.of_layer + row.of_rest) << model << ": " << row.what;
    }
  }
}

/// The first update makes weights infinite. On the device each rank finds the loss of the next step with the norm, and all
/// repeat the step; all losses are bad, so the first rank to say so may be any.
class DeviceNotFinite : public DeviceRuns {
 protected:
  std::string error_of(const std::string& device) {
    Keys keys = {"run.device=" + device, "optimizer.name=sgd", "optimizer.lr=3e38",
                 "optimizer.clip=0",     "batch.micro=2",      "run.reproducible_slots=0"};
    try {
      run(GetParam().name == std::string("one") ? 1 : 2, recipe(GetParam(), keys));
    } catch (const test::RankError& error) {
      static const std::regex changing(R"(.*(step \d+), micro-batch \d+: the loss is [-a-z]+)");
      return std::regex_replace(error.what(), changing, "$1");
    }
    return {};
  }
};

TEST_P(DeviceNotFinite, IsNamedAsOnTheCpu) {
  said_of_device();
  const std::string here = error_of("cpu");
  EXPECT_TRUE(std::regex_search(here, std::regex("first not finite: (rank \\d .*, )?block h.0, forward"))) << here;
  EXPECT_EQ(error_of("auto"), here);
}

INSTANTIATE_TEST_SUITE_P(
    Table, DeviceNotFinite,
    testing::Values(Row{"one", "text", {}}, Row{"dp", "text", {"layout.dp=2"}},
                    Row{"zero_3", "text", {"layout.shard=2", "layout.shard_level=parameters"}},
                    Row{"pp", "text", {"layout.pp=2"}}, Row{"tp", "text", {"layout.tp=2"}},
                    Row{"offload", "text", {"layout.offload_activations=host", "layout.recompute=blocks"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::device_runs_test
