// Steps of ranks that share the cores of their host, computed by hand.
#include "weft/program/simulate/shared_cores.h"

#include <gtest/gtest.h>

#include "tests/program/build/written_out.h"
#include "tests/program/pipelines.h"
#include "weft/program/simulate/simulate.h"

namespace weft::shared_cores_test {
namespace {

/// A device on a host of so many cores.
Hardware on_cores(int64_t cores, int ranks_per_host = 2) {
  Hardware hardware = slow_device({.latency_s = 0, .bytes_per_s = kFree});
  hardware.ranks_per_host = ranks_per_host;
  hardware.cores.per_host = cores;
  return hardware;
}

TEST(SharedCores, RanksThatComputeAtOnceTakeTurns) {
  // 3 s on one rank, 5 s on the other.
  const Program program = two_stages({forward(3)}, {forward(5)});
  EXPECT_EQ(simulate(program, on_cores(2)).step_s, 5.0) << "a core for each";
  const Simulation s = simulate(program, on_cores(1));
  EXPECT_DOUBLE_EQ(s.ranks[0].end_s, 6.0) << "half of the core, while both compute";
  EXPECT_DOUBLE_EQ(s.ranks[1].end_s, 8.0);
  EXPECT_DOUBLE_EQ(s.ranks[1].busy_s, 8.0) << "it computes all the time";
  EXPECT_DOUBLE_EQ(simulate(program, on_cores(1, 1)).step_s, 5.0) << "a host for each";
  EXPECT_DOUBLE_EQ(simulate(program, on_cores(0)).step_s, 5.0) << "not said";
}

TEST(SharedCores, ARankThatWaitsLeavesItsCoreToOthers) {
  const Program program =
      two_stages({forward(3), transfer(Op::send, 1, 8, {0})}, {transfer(Op::receive, 0, 8), forward(5, {0})});
  EXPECT_DOUBLE_EQ(simulate(program, on_cores(1)).step_s, 8.0) << "one after the other, as with a core for each";
  Hardware threads = on_cores(3);
  threads.cores.threads = 2;
  EXPECT_DOUBLE_EQ(simulate(program, threads).step_s, 8.0);
  const Simulation s = simulate(two_stages({forward(3)}, {forward(3)}), threads);
  EXPECT_DOUBLE_EQ(s.step_s, 4.0) << "four threads on three cores";
}

TEST(SharedCores, MessagesBetweenHostsTakePartOfACore) {
  const Program program = two_stages({transfer(Op::send, 1, 8), forward(4)}, {transfer(Op::receive, 0, 8), forward(4)});
  Hardware hardware = on_cores(1, 1);
  hardware.inter_host = {.latency_s = 2.0};
  EXPECT_DOUBLE_EQ(simulate(program, hardware).step_s, 4.0);
  hardware.cores.network_share = 1.0;
  const Simulation s = simulate(program, hardware);
  EXPECT_DOUBLE_EQ(s.ranks[0].end_s, 5.0) << "half of the core for 2 s";
  EXPECT_DOUBLE_EQ(s.ranks[1].end_s, 5.0);
}

TEST(SharedCores, TrafficWithOtherHostsTakesPartOfACore) {
  Hardware hardware = on_cores(1, 1);
  hardware.cores.network_share = 0.5;
  Simulation simulation;
  simulation.ranks.resize(2);
  simulation.index_of_rank = {0, 1};
  SharedCores cores(hardware, simulation, 2);
  ASSERT_TRUE(cores.are_short());
  cores.add_traffic(0, 1.0, 4.0);
  cores.add({.side = 0, .index = 3}, 0.0, 5.0);
  cores.add({.side = 1, .index = 4}, 0.0, 7.0);
  // 1 s alone, 3 s at two thirds of the speed, the other 2 s alone.
  EXPECT_FALSE(cores.take_first(5.5)) << "something happens before";
  const auto first = cores.take_first(8.0), second = cores.take_first(8.0);
  EXPECT_EQ(first->x.index, 3);
  EXPECT_DOUBLE_EQ(first->time_s, 6.0);
  EXPECT_DOUBLE_EQ(first->longer_s, 1.0);
  EXPECT_DOUBLE_EQ(second->time_s, 7.0) << "the other host has no traffic";
  EXPECT_FALSE(cores.take_first(8.0)) << "nothing is left";
}

}  // namespace
}  // namespace weft::shared_cores_test
