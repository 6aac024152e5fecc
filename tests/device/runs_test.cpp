// Whole runs from recipes on the checked device, with what a run does besides steps: loaders with pinned memory, evaluations,
// averages, checkpoints in the background, snapshots in memory. Nothing is said of any, and the bits are the CPU's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
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
  const char* data;  ///< "images" or "text"
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
    std::string rows;
    for (int i = 0; i < 60; ++i) rows += fmt::format("{{\"text\": \"row {} of {}\"}}\n", i, std::string(i % 19, 'x'));
    folder_.write("rows.jsonl", rows);
  }

  Recipe recipe(const Row& row, const Keys& more) const {
    const bool images = std::string(row.data) == "images";
    Keys keys = row.keys;
    keys.insert(keys.end(), more.begin(), more.end());
    const std::string text =
        images ? fmt::format("data = {{ name = \"images\", path = \"{}\" }}\nmodel = {{ name = \"mlp\", width = 16 }}\n",
                             folder_.path().string())
               : fmt::format(
                     "data = {{ name = \"jsonl\", path = \"{}\" }}\n"
                     "model = {{ name = \"gpt\", layers = 2, heads = 2, width = 16, context = 24 }}\n",
                     folder_.file("rows.jsonl"));
    return parse_recipe(text +
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

/// Each of the 4 micro-batches for its loss and its number of targets; the step for the losses, which go to the device and
/// back, and for the largest gradient. Samples come through pinned memory: nothing waits for their copies.
TEST_F(DeviceRun, StepsWaitForTheirResultsAlone) {
  using Waits = std::map<std::string, uint64_t>;
  std::vector<Waits> waits;
  const Recipe some = recipe(kGpt, {"optimizer.clip=0"});
  run(1, some, {.on_step = [&](const StepReport&) {
        waits.push_back(checked_device::synchronisations());
        checked_device::reset_counts();
      }});
  ASSERT_EQ(waits.size(), 4U);
  EXPECT_EQ(waits[2],
            (Waits{{"a copy to the device", 1}, {"a copy to the host", 4 + 1}, {"aten::_local_scalar_dense", 4 + 1}}));
}

}  // namespace
}  // namespace weft::device_runs_test
