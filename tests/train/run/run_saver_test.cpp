// When a run saves: rules that a whole training would not come to by itself.
#include "weft/train/run/run_saver.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/models/gpt.h"
#include "weft/train/trainer/trainer.h"

namespace weft::run_saver_test {
namespace {

/// A run of one rank, whose steps cast the saver's votes.
class Rank {
 public:
  Rank(const World& world, const std::string& runs, RunLength every, StopRequest stop)
      : world_(world),
        trainer_(Mesh(world, {{"dp", 2}}), gpt({.layers = 1, .heads = 1, .width = 16, .context = 8, .vocabulary = 13}), Sgd{},
                 {.global_batch = kGlobalBatch, .micro_batch = 1, .votes = {2, [this] { return saver_->vote(now_); }}}) {
    Recipe recipe;
    recipe.save.folder = runs;
    recipe.save.keep = 0;
    RunLengths lengths;
    lengths.save_every = every;
    saver_ = std::make_unique<RunSaver>(recipe, lengths, trainer_, nullptr, std::move(stop),
                                        [&](const SaveReport& report) { saved_.push_back(report.path); });
  }

  void step(const RunClock& now) {
    now_ = now;
    const Batch batch = job("gpt").batch_of(trainer_.steps_done());
    saver_->hear(trainer_.step(slice(batch, world_.rank() * kGlobalBatch / 2, kGlobalBatch / 2)).votes);
  }
  bool after_step(bool asks_again = false) {
    saver_->is_due(now_, now_, /*is_last=*/false, asks_again);
    return saver_->after_step(/*is_last=*/false);
  }
  RunSaver& saver() { return *saver_; }
  const std::vector<std::string>& saved() const { return saved_; }

 private:
  World world_;
  RunClock now_;
  std::unique_ptr<RunSaver> saver_;
  Trainer trainer_;
  std::vector<std::string> saved_;
};

/// Each rank has its own clock, which reaches a multiple of the length a step earlier or later than the others'. The time
/// before the resume is over.
TEST(RunSaver, ItIsRankZerosClockThatCounts) {
  const test::TempFolder folder;
  std::vector<std::string> saved;
  test::run_ranks(2, [&](World world) {
    Rank rank(world, folder.file("runs"), {.amount = 1.0, .unit = LengthUnit::seconds}, {});
    const auto clock = [&](int step) { return RunClock{.seconds = 10.0 + 0.6 * step + 0.3 * world.rank()}; };
    rank.saver().resumed_from(std::nullopt, clock(0));
    for (int step = 1; step <= 4; ++step) {
      rank.step(clock(step));
      rank.after_step();
    }
    rank.saver().finish();
    if (world.rank() == 0) saved = rank.saved();
  });
  EXPECT_EQ(saved, (std::vector<std::string>{folder.file("runs/step-00000002"), folder.file("runs/step-00000004")}));
}

/// On a device the results of two steps may be read at once.
TEST(RunSaver, VotesOfSeveralStepsAddUp) {
  const test::TempFolder folder;
  test::run_ranks(2, [&](World world) {
    Rank rank(world, folder.file("runs"), {.amount = 100.0, .unit = LengthUnit::seconds}, {});
    rank.step({});
    rank.saver().hear({1.0, 0.0});
    rank.saver().hear({0.0, 0.0});
    EXPECT_TRUE(rank.saver().is_due({}, {}, /*is_last=*/false, /*asks_again=*/false));
    EXPECT_FALSE(rank.saver().is_due({}, {}, false, false)) << "heard once";
    rank.saver().finish();
  });
}

/// One that comes after the votes is heard by the next ones, or before what takes long.
TEST(RunSaver, OneRanksSignalEndsAllAfterTheSameStep) {
  const test::TempFolder folder;
  struct Case {
    bool while_it_runs, asks_again, before_evaluation;
    int ends_after;
  };
  for (const Case& c :
       std::vector<Case>{{true, false, false, 2}, {false, false, false, 3}, {false, true, false, 2}, {false, false, true, 2}}) {
    const std::string runs = folder.file(fmt::format("{}{}{}", c.while_it_runs, c.asks_again, c.before_evaluation));
    test::run_ranks(2, [&](World world) {
      bool asked = false;
      int step = 0;
      const bool mine = world.rank() == 1;
      Rank rank(world, runs, {}, {.asked = [&] { return asked || (mine && c.while_it_runs && step == 2); }});
      bool ended = false;
      while (!ended && step < 5) {
        ++step;
        rank.step({.steps = static_cast<double>(step)});
        if (mine && step == 2) asked = true;
        if (c.before_evaluation && rank.saver().is_stop_asked()) {
          EXPECT_EQ(step, 2);
        }
        ended = rank.after_step(c.asks_again);
      }
      EXPECT_TRUE(ended);
      EXPECT_EQ(step, c.ends_after);
    });
  }
}

}  // namespace
}  // namespace weft::run_saver_test
