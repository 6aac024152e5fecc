// The least time of a layout's states, computed by hand.
#include "weft/plan/search/state_bound.h"

#include <gtest/gtest.h>

namespace weft::state_bound_test {
namespace {

TEST(StateBound, CollectivesBesideComputeMakeItLonger) {
  // Two stages on a pipeline rank, of which the second has 7 weights: 14 bytes of gradients, summed over 2 replicas in 14 s.
  const Hardware hardware{
      .flops = 1.0, .ranks_per_host = 2, .intra_host = {.bytes_per_s = 1.0}, .inter_host = {.bytes_per_s = 1.0}};
  ModelCost cost;
  cost.blocks.resize(2);
  cost.blocks[1].numel = 7;
  PassBounds passes;
  passes.blocks.resize(2);
  const std::vector<RankBound> ranks = {
      {.start_s = 2.0, .work_s = 10.0, .last_start_s = 11.0, .end_s = 12.0, .stages = {{0, 1}, {1, 2}}}};
  DataRingTable rings(hardware);
  const StateChoice replicas{.dp = 2};
  StateInputs inputs{.cost = cost, .passes = passes, .ranks = ranks, .gradient_bytes = 2};
  const auto least = [&] { return least_seconds(inputs, replicas, rings.at({.dp = 2}, 0, false)); };
  EXPECT_DOUBLE_EQ(least(), 14.0) << "the sum";
  inputs.taken_from_compute = 0.5;
  EXPECT_DOUBLE_EQ(least(), 16.0) << "12 s of the sum are beside compute, a third of which it loses";
}

}  // namespace
}  // namespace weft::state_bound_test
