// The host's part of a simulated step, vs cases computed by hand: launches, waits, captured steps; and whose bytes are
// exposed.
#include <gtest/gtest.h>

#include <optional>
#include <ostream>

#include "tests/program/build/written_out.h"
#include "tests/program/pipelines.h"
#include "weft/program/simulate/simulate.h"

namespace weft::launches_test {
namespace {

/// The first instruction of a list has two launches more, and one has the first forward of block 0.
const ModelLaunches kLaunches{.blocks = {{.forward = 4}}};

Instruction norm_of_block(std::vector<int> waits) { return {.op = Op::norm, .first = 0, .last = 1, .waits = std::move(waits)}; }

Hardware device_with_host(double launch_s, std::optional<double> graph_s = {}, std::optional<double> wait_s = {}) {
  Hardware hardware = slow_device();
  hardware.kind = "cuda";
  hardware.host_launch_s = launch_s;
  hardware.graph_launch_s = graph_s;
  hardware.host_wait_s = wait_s;
  return hardware;
}

struct Row {
  const char* name;
  InstructionList list;
  Hardware hardware;
  double step_s, launch_s;
  int launches;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> rows() {
  Hardware captured = device_with_host(1, 0.25), measured = device_with_host(1), free = device_with_host(0);
  captured.captured = true;
  measured.blocks = {{.name = "layer0", .forward_s = 3}};
  const Hardware waits = device_with_host(0.5, {}, 2);
  return {
      {"bound_by_work", {forward(8)}, device_with_host(0.5), 8, 0, 7},
      {"bound_by_launches", {forward(3)}, device_with_host(1), 7, 4, 7},  // as long as the host takes
      // The host goes on 2 s after the norm, launches for 5.5 s from then, and has launched 1 at 2.5 s.
      {"waits", {forward(8), norm_of_block({0})}, waits, 10.5, 2.5, 11},
      // The graph, the step's values and its results, launched by 0.25 + 2 s.
      {"captured", {forward(3)}, captured, 3, 0, 3},
      {"bound_by_a_graph", {forward(1)}, captured, 2.25, 1.25, 3},
      {"measured_with_its_launches", {forward(3)}, measured, 3, 0, 0},
      {"no_time", {forward(3)}, free, 3, 0, 7},
  };
}

class SimulatedHost : public testing::TestWithParam<Row> {};

TEST_P(SimulatedHost, TakesItsTime) {
  const Row& row = GetParam();
  const Program program = copies(row.list, 1);
  const Simulation s = simulate(program, row.hardware, {}, kLaunches);
  EXPECT_EQ(s.step_s, row.step_s);
  EXPECT_EQ(s.ranks[0].launch_s, row.launch_s);
  EXPECT_EQ(s.ranks[0].launches, row.launches);
  EXPECT_EQ(s.ranks[0].host_waits, row.list.size() > 1 ? 1 : 0);
  EXPECT_EQ(s.ranks[0].busy_s + s.ranks[0].launch_s, s.step_s) << "nothing else is waited for";
  EXPECT_EQ(s.launch_bound_share(), row.launch_s / row.step_s);
  Hardware without = row.hardware;
  without.host_launch_s = without.graph_launch_s = without.host_wait_s = {};
  EXPECT_EQ(simulate(program, without, {}, kLaunches).step_s, simulate(program, without).step_s);
}

INSTANTIATE_TEST_SUITE_P(Table, SimulatedHost, testing::ValuesIn(rows()), [](const auto& info) { return info.param.name; });

TEST(SimulatedHost, exposed_time_has_its_collective) {
  const InstructionList list = {forward(1), backward(4), reduce(6, {1}), backward(5), reduce(2, {3})};
  const Simulation s = simulate(copies(list, 2), slow_device({.latency_s = 0.5, .bytes_per_s = 2}));
  const std::vector<Span>& spans = s.ranks[0].spans;
  EXPECT_EQ(spans[2].exposed_s, 0.0) << "beside a backward";
  EXPECT_EQ(spans[4].exposed_s, 2.0) << "at the end";
  EXPECT_EQ(s.ranks[0].exposed_s, 2.0);
}

}  // namespace
}  // namespace weft::launches_test
