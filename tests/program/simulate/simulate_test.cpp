// Simulated times and memory vs cases computed by hand.
#include "weft/program/simulate/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/program/build/written_out.h"
#include "tests/program/pipelines.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"

namespace weft::simulate_test {
namespace {

TEST(Simulate, a_transfer_takes_latency_and_bandwidth) {
  // 3 s of forward; 2 + 8 / 4 s in flight; then the second rank's 5 s.
  const Program program =
      two_stages({forward(3), transfer(Op::send, 1, 8, {0})}, {transfer(Op::receive, 0, 8), forward(5, {0})});
  const Simulation s = simulate(program, slow_device({.latency_s = 2, .bytes_per_s = 4}));
  EXPECT_EQ(s.step_s, 12.0);
  EXPECT_EQ(s.ranks[1].spans[0].start_s, 0.0) << "the receive is posted at once";
  EXPECT_EQ(s.ranks[1].spans[0].begin_s, 3.0);
  EXPECT_EQ(s.ranks[1].spans[0].end_s, 7.0);
  EXPECT_EQ(s.ranks[1].busy_s, 5.0);
  EXPECT_EQ(s.ranks[1].exposed_s, 4.0) << "the message on its way";
  EXPECT_EQ(s.ranks[1].waiting_s, 3.0) << "the first rank's forward";
  EXPECT_EQ(s.ranks[0].exposed_s, 4.0) << "its own step ends with the send";
  EXPECT_EQ(s.ranks[0].waiting_s, 5.0);
  EXPECT_EQ(s.span_s, 5.0) << "the second rank works from 7 s to 12 s";
  EXPECT_EQ(s.bubble_share(), 1.0 - 5.0 / 12.0);
  EXPECT_EQ(s.span_bubble_share(), 0.0);
}

TEST(Simulate, a_message_that_is_there_costs_nothing_unless_receiving_is_work) {
  const Link link = {.latency_s = 2, .bytes_per_s = 4};
  for (bool early : {false, true}) {
    InstructionList second = {forward(9), transfer(Op::receive, 0, 8), forward(5, {1})};
    if (early) {  // posted early: it blocks nothing
      std::swap(second[0], second[1]);
      second[2].waits = {0};
    }
    const Program program = two_stages({forward(3), transfer(Op::send, 1, 8, {0})}, second);
    EXPECT_EQ(simulate(program, slow_device(link)).step_s, 14.0);
    Hardware in_order = slow_device(link);
    in_order.overlap = false;
    const Simulation s = simulate(program, in_order);
    EXPECT_EQ(s.step_s, 18.0);
    EXPECT_EQ(s.ranks[1].exposed_s, 4.0);
    EXPECT_EQ(s.ranks[1].busy_s, 14.0);
  }
}

TEST(Simulate, without_overlap_a_sender_works_too) {
  Hardware in_order = slow_device({.latency_s = 2, .bytes_per_s = 4});
  const Program program =
      two_stages({forward(3), transfer(Op::send, 1, 8, {0}), forward(6)}, {transfer(Op::receive, 0, 8), forward(1, {0})});
  EXPECT_EQ(simulate(program, in_order).of(0).end_s, 9.0);
  in_order.overlap = false;
  EXPECT_EQ(simulate(program, in_order).of(0).end_s, 13.0);
  EXPECT_EQ(simulate(program, in_order).of(1).end_s, 8.0);
}

TEST(Simulate, other_software_computes_beside_a_part_of_a_message) {
  Hardware hardware = slow_device({.latency_s = 2, .bytes_per_s = 4});
  hardware.kind = "cuda";
  hardware.operators.emplace();
  const Program program =
      two_stages({forward(3), transfer(Op::send, 1, 8, {0}), forward(6)}, {transfer(Op::receive, 0, 8), forward(1, {0})});
  for (const double exposed : {0.0, 0.25, 1.0}) {
    hardware.software = SoftwareCosts{.exposed_messages = exposed};
    EXPECT_EQ(simulate(program, hardware).of(0).end_s, 9.0 + 4 * exposed);
    EXPECT_EQ(simulate(program, hardware).of(1).end_s, 8.0) << "the message takes 4 s anyway";
  }
  hardware.software->step_s = 5.0;
  EXPECT_EQ(simulate(program, hardware).step_s, 13.0 + 5.0);
}

TEST(Simulate, two_level_traffic_between_hosts_overlaps_compute) {
  Hardware hardware = slow_device({.latency_s = 2, .bytes_per_s = 4});
  hardware.overlap = false;
  hardware.two_levels = true;
  hardware.inter_host = hardware.intra_host;
  hardware.ranks_per_host = 1;
  const Program messages =
      two_stages({forward(3), transfer(Op::send, 1, 8, {0}), forward(6)}, {transfer(Op::receive, 0, 8), forward(1, {0})});
  EXPECT_EQ(simulate(messages, hardware).of(0).end_s, 9.0);
  EXPECT_EQ(simulate(messages, hardware).of(1).end_s, 8.0) << "3 + 2 + 8 / 4 + 1";
  EXPECT_EQ(simulate(messages, hardware).of(1).exposed_s, 4.0);
  hardware.ranks_per_host = 2;
  EXPECT_EQ(simulate(messages, hardware).of(0).end_s, 13.0) << "inside a host it takes the compute lane";
}

TEST(Simulate, messages_share_a_link_and_keep_their_order) {
  InstructionList first, second;
  for (int i = 0; i < 3; ++i) {
    first.push_back(forward(1));
    first.push_back(transfer(Op::send, 1, 5, {2 * i}));
    second.push_back(transfer(Op::receive, 0, 5));
  }
  const Simulation s = simulate(two_stages(first, second), slow_device({.latency_s = 1, .bytes_per_s = 1}));
  // Sent at 1, 2 and 3 s; each occupies the link for 5 s and arrives one second later.
  EXPECT_EQ(s.ranks[1].spans[0].end_s, 7.0);
  EXPECT_EQ(s.ranks[1].spans[1].end_s, 12.0);
  EXPECT_EQ(s.ranks[1].spans[2].end_s, 17.0);
}

TEST(Simulate, a_reduction_hides_behind_compute_where_there_is_overlap) {
  const InstructionList list = {forward(1), backward(4), reduce(6, {1}), backward(5), reduce(2, {3})};
  Hardware hardware = slow_device({.latency_s = 0.5, .bytes_per_s = 2});
  // The first takes 2 x (2 - 1) x 0.5 + 6 / 2 = 4 s, overlapping 5 s of backward; the second 2 s at the end.
  Simulation s = simulate(copies(list, 2), hardware);
  EXPECT_EQ(s.step_s, 12.0);
  EXPECT_EQ(s.ranks[0].busy_s, 10.0);
  EXPECT_EQ(s.ranks[0].exposed_s, 2.0);
  EXPECT_EQ(s.ranks[0].waiting_s, 0.0);
  hardware.overlap = false;
  s = simulate(copies(list, 2), hardware);
  EXPECT_EQ(s.step_s, 16.0);
  EXPECT_EQ(s.ranks[0].exposed_s, 6.0);
  // Four ranks: 2 x (4 - 1) x 0.5 + 6 / 2 = 6 s, one second longer than backward, and 4 s after it: a port takes one at once.
  hardware.overlap = true;
  EXPECT_EQ(simulate(copies(list, 4), hardware).step_s, 1 + 4 + 6 + 4);
}

TEST(Simulate, a_reduction_that_begins_during_compute_slows_the_next) {
  // Rank 1 is late: its partner's sum begins at 3 s, while that computes from 1 to 5 s; 2 s beside it are added to the last.
  Hardware hardware = slow_device({.bytes_per_s = 2});
  hardware.collectives = {.taken_from_compute = 0.25};
  const InstructionList early = {backward(1), reduce(4, {0}), backward(4), backward(5)};
  const InstructionList late = {backward(3), reduce(4, {0})};
  const Simulation s = simulate(data_parallel({early, late}), hardware);
  EXPECT_EQ(s.ranks[0].spans[2].end_s, 5.0);
  EXPECT_EQ(s.ranks[0].spans[3].end_s, 10.0 + 2 * 0.25);
  EXPECT_EQ(s.ranks[0].busy_s, 10.5);
}

TEST(Simulate, a_reduction_takes_its_share_of_compute_beside_it) {
  // 1 s of start and 6 / 2 s beside 5 s of backward: 4 x 0.25 s longer. The second is exposed, and slows nothing.
  const InstructionList list = {forward(1), backward(4), reduce(6, {1}), backward(5), reduce(2, {3})};
  Hardware hardware = slow_device({.bytes_per_s = 2});
  hardware.collectives = {.all_reduce_start_s = 1.0, .taken_from_compute = 0.25};
  const Simulation s = simulate(copies(list, 2), hardware);
  EXPECT_EQ(s.ranks[0].spans[3].end_s, 1 + 4 + 5 + 4 * 0.25);
  EXPECT_EQ(s.step_s, 1 + 4 + 5 + 4 * 0.25 + 2);
  EXPECT_EQ(s.ranks[0].busy_s, 11.0);
  EXPECT_EQ(s.ranks[0].exposed_s, 2.0);
}

TEST(Simulate, compute_stops_only_for_its_waits) {
  // 4 s of reduction, of which 3 overlap the next forward; then another forward needs it.
  const InstructionList list = {forward(1), reduce(4, {0}), forward(3), forward(1, {1})};
  const Simulation s = simulate(copies(list, 2), slow_device({.bytes_per_s = 1}));
  EXPECT_EQ(s.step_s, 6.0);
  EXPECT_EQ(s.ranks[0].exposed_s, 1.0);
}

TEST(Simulate, everybody_waits_for_a_straggler) {
  std::vector<InstructionList> lists;
  for (double seconds : {1, 1, 7, 1}) lists.push_back({forward(seconds), reduce(3, {0}), forward(1, {1})});
  const Simulation s = simulate(data_parallel(lists), slow_device({.bytes_per_s = 1}));
  EXPECT_EQ(s.step_s, 11.0);
  for (int rank : {0, 2}) {
    EXPECT_EQ(s.of(rank).spans[1].begin_s, 7.0);
    EXPECT_EQ(s.of(rank).spans[1].end_s, 10.0);
    EXPECT_EQ(s.of(rank).exposed_s, 3.0);
  }
  EXPECT_EQ(s.of(0).waiting_s, 6.0);
  EXPECT_EQ(s.of(2).waiting_s, 0.0);
}

TEST(Simulate, a_straggler_delays_those_it_meets) {
  // Two by two ranks that meet over the shards only: the other replica is not affected.
  std::vector<InstructionList> lists;
  for (double seconds : {1, 5}) {
    lists.push_back({forward(seconds), reduce(0, {0}), forward(1, {1})});
    lists.back()[1].axes = kShardAxis;
  }
  Program program = data_parallel(lists);
  program.mesh = {.dp = 2, .shard = 2};
  program.list_of_rank = {0, 0, 0, 1};
  const Simulation s = simulate(program, slow_device());
  EXPECT_EQ(s.of(1).end_s, 2.0);
  EXPECT_EQ(s.of(2).end_s, 6.0);
  EXPECT_EQ(s.of(3).end_s, 6.0);
}

TEST(Simulate, a_norm_over_shards_keeps_the_compute_lane) {
  InstructionList list = {forward(1), reduce(4, {0}), forward(1, {1})};
  list[1].op = Op::norm;
  list[1].lane = Lane::compute;
  const Simulation s = simulate(copies(list, 2), slow_device({.bytes_per_s = 2}));
  EXPECT_EQ(s.step_s, 4.0);
  EXPECT_EQ(s.ranks[0].busy_s, 2.0);
  EXPECT_EQ(s.ranks[0].exposed_s, 2.0);
}

TEST(Simulate, times_of_a_deeper_model_serve) {
  Hardware hardware = slow_device();
  const Program program = copies({forward(1)}, 1);
  hardware.blocks = {{.name = "layer0", .forward_s = 3.0}, {.name = "layer7", .forward_s = 5.0}};
  EXPECT_EQ(simulate(program, hardware).step_s, 3.0);
}

TEST(Simulate, copies_run_one_at_a_time_overlapping_compute) {
  InstructionList list = {forward(3), forward(9), forward(1, {2, 3})};
  for (int i = 0; i < 2; ++i) {
    list.insert(
        list.begin() + 1 + i,
        {.op = Op::reload, .lane = Lane::copy, .first = 0, .last = 1, .micro = 0, .what = Payload::input, .copy_bytes = 12});
  }
  list[4].waits = {1, 2};
  Hardware hardware = slow_device();
  hardware.offload = {.latency_s = 2, .bytes_per_s = 3};
  // Two copies of 6 s each, from the start, overlapping 12 s of compute.
  EXPECT_EQ(simulate(copies(list, 1), hardware).step_s, 13.0);
  EXPECT_EQ(simulate(copies(list, 1), hardware).of(0).spans[2].begin_s, 6.0);
  hardware.overlap = false;
  EXPECT_EQ(simulate(copies(list, 1), hardware).step_s, 25.0);
}

TEST(Simulate, a_collective_begins_when_the_slowest_has_done_its_part) {
  // Each sums its own gradients, at one byte per second, before the norms meet: 40 s on the first, 4 s on the second.
  Program program = two_stages({forward(1)}, {forward(2)});
  program.block_names = {"large", "small"};
  program.block_numel = {10, 1};
  program.block_uses = {{}, {}};
  program.lists[0].clear();
  program.lists[1][0].first = 1;  // 4 s, for its weights
  program.lists[1][0].last = 2;
  for (int rank : {0, 1}) {
    program.lists[rank].push_back({.op = Op::norm, .first = rank, .last = rank + 1, .axes = kPipelineAxis});
  }
  Hardware hardware = slow_device();
  hardware.memory_bytes_per_s = 1.0;
  const Simulation s = simulate(program, hardware);
  EXPECT_EQ(s.of(0).spans[0].begin_s, 40.0);
  EXPECT_EQ(s.of(1).spans[1].begin_s, 40.0) << "its own part was done at 8 s";
}

TEST(Simulate, launches_take_their_time) {
  Hardware hardware = slow_device();
  hardware.launch_s = 0.25;
  EXPECT_EQ(simulate(copies({{.op = Op::load, .micro = 0}, forward(1), backward(2)}, 1), hardware).step_s, 3.5);
}

TEST(Simulate, memory_follows_time_and_not_the_list) {
  // A send frees its data only at its end.
  InstructionList first = {forward(1), transfer(Op::send, 1, 10, {0}), backward(3), backward(20)};
  first[0].allocates = 100;
  first[1].frees = 100;
  first[2].peak = 50;
  first[3].peak = 60;
  const Program program = two_stages(first, {transfer(Op::receive, 0, 10)});
  const auto peak = [&](double bytes_per_s) {
    return simulate(program, slow_device({.bytes_per_s = bytes_per_s})).of(0).memory.of(MemoryCategory::activations);
  };
  EXPECT_EQ(step_cost(first).peak_activation_bytes, 100) << "by the list the send is over at once";
  EXPECT_EQ(peak(10), 150);  // sent within a second, while the first backward runs
  EXPECT_EQ(peak(1), 160);   // the send lasts into the second one
}

TEST(Simulate, one_lane_has_the_memory_of_the_list) {
  for (bool recomputes : {false, true}) {
    const Program program = build_program(toy_model(5), {.recompute = {.every = recomputes ? 1 : 0}, .micro_batches = 3});
    const Simulation s = simulate(program, slow_device());
    EXPECT_EQ(s.of(0).memory.of(MemoryCategory::activations), step_cost(program.of(0)).peak_activation_bytes);
    EXPECT_EQ(s.of(0).memory.of(MemoryCategory::gradients), estimate_memory(program, 0, {}).of(MemoryCategory::gradients));
    EXPECT_EQ(s.of(0).recompute_flops, recomputes ? 3 * (4 * 1000 + 6) : 0.0) << "all blocks but the last";
    EXPECT_EQ(s.model_flops, 3 * 3 * (5 * 1000 + 10));
  }
}

TEST(Simulate, utilisation_is_of_the_peak_and_of_all_ranks) {
  Hardware hardware = slow_device({.bytes_per_s = 1});
  hardware.flops = 2.0;
  hardware.efficiency = 0.5;
  // 10 s of work at half the peak, 10 s of reduction.
  const Simulation s = simulate(copies({forward(4), backward(6), reduce(10, {1})}, 2), hardware);
  EXPECT_EQ(s.step_s, 20.0);
  EXPECT_EQ(s.flops, 20.0);
  EXPECT_EQ(s.utilisation, 0.25);
}

std::vector<double> ends(const SimulatedRank& rank) {
  std::vector<double> result;
  for (const Span& span : rank.spans) result.push_back(span.end_s);
  return result;
}

TEST(Simulate, the_same_program_gives_the_same_bits) {
  const Program program = build_program(
      toy_model(12), {.dp = 2, .shard = 4, .shard_level = ShardLevel::parameters, .micro_batches = 3, .clip = true});
  Hardware hardware = nominal_hardware();
  hardware.flops = 1e6;
  const Simulation a = simulate(program, hardware);
  const Simulation b = simulate(program, hardware);
  EXPECT_GT(a.step_s, 0.0);
  EXPECT_EQ(a.step_s, b.step_s);
  EXPECT_EQ(ends(a.of(0)), ends(b.of(0)));
}

// Reports the waiting instruction whose partner has finished; the others wait for it.

}  // namespace
}  // namespace weft::simulate_test
