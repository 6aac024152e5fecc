// Snapshots on a board that ranks share: on other counts of ranks than took them, half taken, and damaged.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>

#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "tests/train/weights_of.h"
#include "weft/base/run_board.h"
#include "weft/base/storage_error.h"
#include "weft/models/gpt.h"

namespace weft::snapshot_test {
namespace {

constexpr int kWriters = 2, kMostRanks = 3;

using test::Weights;
using test::weights_of;

Trainer trainer_of(const World& world) {
  return Trainer(Mesh(world, {{"shard", world.size()}}),
                 gpt({.layers = 2, .heads = 2, .width = 16, .context = 8, .vocabulary = 13}), AdamW{},
                 {.global_batch = kGlobalBatch, .micro_batch = 1});
}

/// Takes one after each of two steps. The weights after both on rank 0.
Weights take_two(RunBoard& board) {
  Weights weights;
  test::run_ranks(kWriters, [&](World world) {
    constexpr int64_t kShare = kGlobalBatch / kWriters;
    Trainer trainer = trainer_of(world);
    for (int step = 0; step < 2; ++step) {
      trainer.step(slice(job("gpt").batch_of(step), world.rank() * kShare, kShare));
      trainer.save_to(board);
    }
    const Weights own = weights_of(trainer);
    if (world.rank() == 0) weights = own;
  });
  return weights;
}

/// The copies that were taken after two steps.
int newest_number(const RunBoard& board) { return board.copy(0, 0).step == 2 ? 0 : 1; }

TEST(Snapshot, IsLoadedByMoreRanksAndByFewer) {
  RunBoard board(kMostRanks);
  const Weights expected = take_two(board);
  for (const int ranks : {1, kWriters, kMostRanks}) {
    SCOPED_TRACE(ranks);
    test::run_ranks(ranks, [&](World world) {
      Trainer trainer = trainer_of(world);
      EXPECT_FALSE(trainer.load_from(board, 2)) << "a checkpoint is as new";
      const auto report = trainer.load_from(board, 1);
      ASSERT_TRUE(report);
      EXPECT_EQ(report->step, 2);
      const Weights found = weights_of(trainer);
      for (const auto& [name, value] : found) EXPECT_TRUE(at::equal(value, expected.at(name))) << name;
      EXPECT_EQ(found.size(), expected.size());
    });
  }
}

TEST(Snapshot, BeforeOneThatARankHasNotTakenWholeCounts) {
  RunBoard board(kMostRanks);
  take_two(board);
  board.set_copy(1, newest_number(board), {});
  test::run_ranks(1, [&](World world) {
    const auto report = trainer_of(world).load_from(board, -1);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 1);
  });
}

TEST(Snapshot, ThatIsDamagedIsRefusedOnAllRanks) {
  RunBoard board(kMostRanks);
  take_two(board);
  const int file = board.file(1, newest_number(board));
  char byte = 0;
  ASSERT_EQ(pread(file, &byte, 1, 0), 1);
  byte = static_cast<char>(byte ^ 1);
  ASSERT_EQ(pwrite(file, &byte, 1, 0), 1);
  test::run_ranks(kWriters, [&](World world) {
    Trainer trainer = trainer_of(world);
    try {
      trainer.load_from(board, -1);
      ADD_FAILURE() << "it is loaded";
    } catch (const DamageError& error) {
      EXPECT_NE(std::string(error.what()).find("the copy of the state in memory/data-00001.bin: damaged in tensor"),
                std::string::npos)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace weft::snapshot_test
