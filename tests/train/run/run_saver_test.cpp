// When a run saves: rules that a whole training would not come to by itself.
#include "weft/train/run/run_saver.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/models/gpt.h"
#include "weft/train/trainer/trainer.h"

namespace weft::run_saver_test {
namespace {

/// Each rank has a clock of its own, which reaches a multiple of the length a step earlier or later than the others'.
TEST(RunSaver, ItIsRankZerosClockThatCounts) {
  const test::TempFolder folder;
  std::vector<std::string> saved;
  test::run_ranks(2, [&](World world) {
    std::function<std::vector<double>()> vote;
    Trainer trainer(Mesh(world, {{"dp", 2}}), gpt({.layers = 1, .heads = 1, .width = 16, .context = 8, .vocabulary = 13}),
                    Sgd{}, {.global_batch = kGlobalBatch, .micro_batch = 1, .votes = {2, [&vote] { return vote(); }}});
    Recipe recipe;
    recipe.save.folder = folder.file("runs");
    recipe.save.keep = 0;
    RunLengths lengths;
    lengths.save_every = {.amount = 1.0, .unit = LengthUnit::seconds};
    RunSaver saver(recipe, lengths, trainer, nullptr, {}, [&](const SaveReport& report) { saved.push_back(report.path); });
    const auto clock = [&](int step) {
      return RunClock{.steps = static_cast<double>(step), .seconds = 0.6 * step + 0.3 * world.rank()};
    };
    for (int step = 1; step <= 4; ++step) {
      vote = [&] { return saver.vote(clock(step)); };
      saver.hear(trainer.step(slice(job("gpt").batch_of(step), world.rank() * kGlobalBatch / 2, kGlobalBatch / 2)).votes);
      saver.after_step(clock(step - 1), clock(step), /*is_last=*/false, /*asks_again=*/false);
    }
    saver.finish();
  });
  EXPECT_EQ(saved, (std::vector<std::string>{folder.file("runs/step-00000002"), folder.file("runs/step-00000004")}));
}

}  // namespace
}  // namespace weft::run_saver_test
