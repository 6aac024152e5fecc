// Parity (law 1) and same bits (law 2) where matrix products are large, and go to another library than small ones.
#include <gtest/gtest.h>

#include "tests/train/jobs.h"

namespace weft::wide_products_test {
namespace {

constexpr int kSteps = 5;

struct Cell {
  const char* what;
  int ranks;
  Strategy strategy;
};

std::vector<Cell> cells() {
  const ShardLevel parameters = ShardLevel::parameters;
  return {
      {"replicas", 4, {}},
      {"shards", 2, {.spread = Spread::shard, .layout = {.shard_level = parameters}}},
      {"shards, recomputed", 4, {.spread = Spread::hybrid, .layout = {.shard_level = parameters, .recompute_every = 1}}},
      {"pipeline", 2, {.pp = 2, .layout = {.pipeline = {.schedule = "1f1b"}}}},
      {"pipeline that splits backward",
       4,
       {.spread = Spread::shard, .pp = 2, .layout = {.pipeline = {.schedule = "zb-h1"}, .shard_level = parameters}}},
  };
}

TEST(WideProducts, EqualOneDeviceInPlainLibTorch) {
  for (Cell cell : cells()) {
    cell.strategy.micro_batch = 8;
    SCOPED_TRACE(cell.what);
    expect_parity(job("wide_mlp"), cell.strategy, cell.ranks, kSteps);
  }
}

TEST(WideProducts, HaveTheBitsOfOneDevice) {
  const Strategy alone{.micro_batch = 8, .slots = 4, .clip = 0.5};
  const Trained one = train_ranks(job("wide_mlp"), alone, 1, AdamW{}, kSteps);
  for (Cell cell : cells()) {
    cell.strategy.micro_batch = 8;
    cell.strategy.slots = 4;
    cell.strategy.clip = 0.5;
    expect_equal(train_ranks(job("wide_mlp"), cell.strategy, cell.ranks, AdamW{}, kSteps), one, cell.what);
  }
}

}  // namespace
}  // namespace weft::wide_products_test
