// Simulated times and memory against cases worked out by hand.
#include "weft/program/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/program/pipelines.h"
#include "weft/base/error.h"
#include "weft/program/build.h"
#include "weft/program/cost.h"

namespace weft {
namespace {

// An operation takes a second; links as a test says.
Hardware slow_device(const Link& link = {}) {
  return {.name = "slow", .flops = 1.0, .narrow_flops = 1.0, .intra_host = link, .inter_host = link};
}

Instruction forward(double flops, std::vector<int> waits = {}) {
  return {.op = Op::forward, .first = 0, .last = 1, .micro = 0, .waits = std::move(waits), .flops = flops};
}
Instruction backward(double flops) { return {.op = Op::backward, .first = 0, .last = 1, .micro = 0, .flops = flops}; }
Instruction reduce(int64_t wire_bytes, std::vector<int> waits) {
  return {.op = Op::reduce,
          .lane = Lane::comm,
          .first = 0,
          .last = 1,
          .axis = AxisName::data,
          .waits = std::move(waits),
          .wire_bytes = wire_bytes};
}

// Ranks side by side, each with a list of its own.
Program data_parallel(std::vector<InstructionList> lists) {
  Program program = toy_program(toy_model(1, 0));
  program.replicas = program.mesh.dp = static_cast<int>(lists.size());
  for (int rank = 0; rank < program.replicas; ++rank) program.list_of_rank.push_back(rank);
  program.lists = std::move(lists);
  program.buffers.resize(program.lists.size());
  return program;
}

Program copies(const InstructionList& list, int ranks) {
  Program program = data_parallel({list});
  program.replicas = program.mesh.dp = ranks;
  program.list_of_rank.assign(ranks, 0);
  return program;
}

std::string error_of(const Program& program, const Hardware& hardware = slow_device()) {
  try {
    simulate(program, hardware);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Simulate, a_transfer_takes_latency_and_bandwidth) {
  // 3 s of forward; 2 + 8 / 4 s on the way; then the second rank's 5 s.
  const Schedule schedule = {.name = "",
                             .micro_batches = 1,
                             .rank_of_stage = {0, 1},
                             .tasks = {{{TaskKind::forward, 0, 0}}, {{TaskKind::forward, 1, 0}}}};
  Program program = pipeline_program(schedule, {.forward_flops = 3, .message_bytes = 8});
  program.lists[1][1].flops = 5;
  const Link link = {.latency_s = 2, .bytes_per_s = 4};
  Simulation s = simulate(program, slow_device(link));
  EXPECT_EQ(s.step_s, 12.0);
  EXPECT_EQ(s.ranks[1].spans[0].start_s, 0.0) << "the receive is posted at once";
  EXPECT_EQ(s.ranks[1].spans[0].begin_s, 3.0);
  EXPECT_EQ(s.ranks[1].spans[0].end_s, 7.0);
  EXPECT_EQ(s.ranks[1].busy_s, 5.0);
  EXPECT_EQ(s.ranks[1].exposed_s, 4.0) << "the message on its way";
  EXPECT_EQ(s.ranks[1].waiting_s, 3.0) << "the first rank's forward";
  EXPECT_EQ(s.ranks[0].exposed_s, 4.0) << "its own step ends with the send";
  EXPECT_EQ(s.ranks[0].waiting_s, 5.0);
  EXPECT_EQ(s.span_s, 7.0) << "the first rank; the second works from 7 s to 12 s";
  EXPECT_EQ(s.bubble_share(), 1.0 - 5.0 / 12.0);
  EXPECT_EQ(s.span_bubble_share(), 1.0 - 5.0 / 7.0);
  // A receive that is started later than the message is there ends at once, unless receiving is work.
  program.lists[1].insert(program.lists[1].begin(), forward(9));
  program.lists[1][1].waits = {0};
  program.lists[1][2].waits = {1};
  EXPECT_EQ(simulate(program, slow_device(link)).step_s, 14.0);
  Hardware in_order = slow_device(link);
  in_order.overlap = false;
  s = simulate(program, in_order);
  EXPECT_EQ(s.step_s, 18.0);
  EXPECT_EQ(s.ranks[1].exposed_s, 4.0);
}

TEST(Simulate, messages_share_a_link_and_keep_their_order) {
  Schedule schedule = gpipe(2, 3);
  for (auto& tasks : schedule.tasks) tasks.resize(3);
  const Program program = pipeline_program(schedule, {.message_bytes = 5});
  const Simulation s = simulate(program, slow_device({.latency_s = 1, .bytes_per_s = 1}));
  // Sent at 1, 2 and 3 s; each keeps the link for 5 s and is there a second after that.
  std::vector<double> arrivals;
  for (size_t i = 0; i < program.lists[1].size(); ++i) {
    if (program.lists[1][i].op == Op::receive) arrivals.push_back(s.ranks[1].spans[i].end_s);
  }
  EXPECT_EQ(arrivals, (std::vector<double>{7, 12, 17}));
}

TEST(Simulate, a_reduction_hides_behind_compute_where_there_is_overlap) {
  const InstructionList list = {forward(1), backward(4), reduce(6, {1}), backward(5), reduce(2, {3})};
  Hardware hardware = slow_device({.latency_s = 0.5, .bytes_per_s = 2});
  // The first takes 2 x (2 - 1) x 0.5 + 6 / 2 = 4 s beside 5 s of backward; the second 2 s at the end.
  Simulation s = simulate(copies(list, 2), hardware);
  EXPECT_EQ(s.step_s, 12.0);
  EXPECT_EQ(s.ranks[0].busy_s, 10.0);
  EXPECT_EQ(s.ranks[0].exposed_s, 2.0);
  EXPECT_EQ(s.ranks[0].waiting_s, 0.0);
  hardware.overlap = false;
  s = simulate(copies(list, 2), hardware);
  EXPECT_EQ(s.step_s, 16.0);
  EXPECT_EQ(s.ranks[0].exposed_s, 6.0);
  // Four ranks: 2 x (4 - 1) x 0.5 + 6 / 2 = 6 s, a second longer than backward, and 4 s after it: a port takes one at a time.
  hardware.overlap = true;
  EXPECT_EQ(simulate(copies(list, 4), hardware).step_s, 1 + 4 + 6 + 4);
}

TEST(Simulate, compute_stands_still_for_what_it_waits_for_only) {
  // 4 s of reduction, of which 3 are beside the next forward; then another forward needs it.
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
  // Two by two ranks that meet over the shards only: the other replica does not notice.
  std::vector<InstructionList> lists;
  for (double seconds : {1, 5}) {
    lists.push_back({forward(seconds), reduce(0, {0}), forward(1, {1})});
    lists.back()[1].axis = AxisName::shard;
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

TEST(Simulate, launches_cost_what_they_cost) {
  Hardware hardware = slow_device();
  hardware.launch_s = 0.25;
  EXPECT_EQ(simulate(copies({{.op = Op::load, .micro = 0}, forward(1), backward(2)}, 1), hardware).step_s, 3.5);
}

struct Layout {
  int ranks, micro_batches;
};

// (p - 1) / (m + p - 1): Huang et al. 2019 (arXiv:1811.06965) for GPipe; 1F1B has the same bubble.
TEST(Simulate, equal_stages_have_the_bubble_of_the_formula) {
  for (const auto& [p, m] : {Layout{2, 2}, {4, 8}, {4, 1}, {8, 32}}) {
    for (const Schedule& schedule : {gpipe(p, m), one_forward_one_backward(p, m)}) {
      const Simulation s = simulate(pipeline_program(schedule), slow_device());
      EXPECT_EQ(s.step_s, 3.0 * (m + p - 1)) << schedule.name << " " << p << " " << m;
      EXPECT_DOUBLE_EQ(s.bubble_share(), (p - 1.0) / (m + p - 1.0)) << schedule.name;
      EXPECT_EQ(s.busiest_s(), 3.0 * m);
      EXPECT_EQ(s.flops, 3.0 * m * p);
    }
  }
}

// Interleaving v chunks a rank divides the bubble by v: Narayanan et al. 2021 (arXiv:2104.04473).
TEST(Simulate, interleaving_divides_the_bubble) {
  const int p = 4, v = 3, m = 8;
  const Simulation s = simulate(pipeline_program(interleaved(p, v, m)), slow_device());
  EXPECT_EQ(s.step_s, 3.0 * (v * m + p - 1));
}

// With T_F = T_B = T_W, 1F1B idles (p - 1) (T_F + T_B + T_W) and ZB-H1 (p - 1) (T_F + T_B - T_W), from first work to last.
TEST(Simulate, splitting_backward_shrinks_the_bubble) {
  const int p = 4, m = 12;
  const Simulation whole = simulate(pipeline_program(one_forward_one_backward(p, m)), slow_device());
  const Simulation split = simulate(pipeline_program(zero_bubble_h1(p, m)), slow_device());
  EXPECT_EQ(whole.span_s, 3.0 * (m + p - 1));
  EXPECT_EQ(split.span_s, 3.0 * m + p - 1);
  EXPECT_DOUBLE_EQ(split.span_bubble_share(), 1.0 - 3.0 * m / (3.0 * m + p - 1));
}

TEST(Simulate, activations_peak_as_the_schedule_says) {
  const int p = 4, m = 8;
  const StageCost cost = {.saved_bytes = 10};
  const auto peaks = [&](const Schedule& schedule) {
    std::vector<int64_t> result;
    for (const SimulatedRank& rank : simulate(pipeline_program(schedule, cost), slow_device()).ranks) {
      result.push_back(rank.memory.of(Category::activations));
    }
    return result;
  };
  EXPECT_EQ(peaks(gpipe(p, m)), (std::vector<int64_t>{80, 80, 80, 80}));
  EXPECT_EQ(peaks(one_forward_one_backward(p, m)), (std::vector<int64_t>{40, 30, 20, 10}));
}

TEST(Simulate, memory_follows_time_and_not_the_list) {
  // The message waits in memory from when its receive is posted; what a send frees goes only when it is over.
  const Schedule schedule = {.name = "",
                             .micro_batches = 1,
                             .rank_of_stage = {0, 1},
                             .tasks = {{{TaskKind::forward, 0, 0}}, {{TaskKind::forward, 1, 0}}}};
  Program program = pipeline_program(schedule, {.forward_flops = 1, .message_bytes = 10});
  InstructionList& first = program.lists[0];  // load, forward, send
  first[1].allocates = 100;
  first[2].frees = 100;
  first.push_back(backward(3));
  first.back().peak = 50;
  first.push_back(backward(20));
  first.back().peak = 60;
  const auto peak = [&](double bytes_per_s) {
    return simulate(program, slow_device({.bytes_per_s = bytes_per_s})).of(0).memory.of(Category::activations);
  };
  EXPECT_EQ(step_cost(first).peak_activation_bytes, 100) << "by the list the send is over at once";
  EXPECT_EQ(peak(10), 150);  // sent within a second, while the first backward runs
  EXPECT_EQ(peak(1), 160);   // the send lasts into the second one
}

TEST(Simulate, one_lane_has_the_memory_of_the_list) {
  for (bool recomputes : {false, true}) {
    const Program program = build_program(toy_model(5), {.recompute = {.every = recomputes ? 1 : 0}, .micro_batches = 3});
    const Simulation s = simulate(program, slow_device());
    EXPECT_EQ(s.of(0).memory.of(Category::activations), step_cost(program.of(0)).peak_activation_bytes);
    EXPECT_EQ(s.of(0).memory.of(Category::gradients), estimate_memory(program, 0, {}).of(Category::gradients));
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

TEST(Simulate, copies_of_a_column_change_nothing) {
  const Link link = {.latency_s = 0.1, .bytes_per_s = 16};
  const StageCost cost = {.message_bytes = 4};
  const Schedule schedule = one_forward_one_backward(4, 8);
  const Simulation one = simulate(pipeline_program(schedule, cost), slow_device(link));
  const Simulation many = simulate(pipeline_program(schedule, cost, {.dp = 8, .shard = 2, .tp = 2}), slow_device(link));
  ASSERT_EQ(many.ranks.size(), 4u);
  EXPECT_EQ(many.index_of_rank.size(), 128u);
  for (int pp = 0; pp < 4; ++pp) {
    EXPECT_EQ(many.ranks[pp].count, 32);
    EXPECT_EQ(ends(many.ranks[pp]), ends(one.ranks[pp]));
    EXPECT_EQ(&many.of(pp * 32 + 31), &many.ranks[pp]);
  }
  EXPECT_EQ(many.step_s, one.step_s);
  EXPECT_EQ(many.flops, 32 * one.flops);
}

TEST(Simulate, distinct_columns_that_do_the_same_give_the_same_times) {
  // The same program with every rank's list a list of its own: nothing is shared, all 16 ranks are simulated.
  Program shared = pipeline_program(one_forward_one_backward(2, 4), {.message_bytes = 4}, {.dp = 4, .shard = 2});
  for (InstructionList& list : shared.lists) {
    list.push_back(reduce(6, {static_cast<int>(list.size()) - 1}));
    list.push_back(reduce(2, {}));
    list.back().axis = AxisName::world;
  }
  Program apart = shared;
  apart.lists.clear();
  for (int rank = 0; rank < 16; ++rank) {
    apart.lists.push_back(shared.of(rank));
    apart.list_of_rank[rank] = rank;
  }
  apart.buffers.resize(apart.lists.size());
  const Hardware hardware = slow_device({.latency_s = 0.1, .bytes_per_s = 16});
  const Simulation few = simulate(shared, hardware);
  const Simulation all = simulate(apart, hardware);
  EXPECT_EQ(few.ranks.size(), 2u);
  EXPECT_EQ(all.ranks.size(), 16u);
  for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(ends(few.of(rank)), ends(all.of(rank))) << rank;
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

// 4 096 ranks: pp 16, dp 32, tp 8; 96 blocks, 128 micro-batches.
TEST(Simulate, thousands_of_ranks) {
  const int p = 16, m = 128;
  Program program = pipeline_program(one_forward_one_backward(p, m), {.blocks = 6}, {.dp = 32, .tp = 8});
  for (InstructionList& list : program.lists) {
    list.push_back(reduce(1 << 20, {static_cast<int>(list.size()) - 1}));
    list.push_back({.op = Op::update, .first = 0, .last = 1, .waits = {static_cast<int>(list.size()) - 1}});
  }
  const Simulation s = simulate(program, slow_device({.bytes_per_s = 1 << 20}));
  EXPECT_EQ(program.world_size(), 4096);
  EXPECT_EQ(program.num_blocks(), 96);
  EXPECT_EQ(s.ranks.size(), 16u);
  EXPECT_EQ(s.step_s, 18.0 * (m + p - 1) + 1.0) << "the first stage is the last to reduce";
  EXPECT_EQ(s.flops, 18.0 * m * 4096);
}

TEST(Simulate, what_never_ends_is_named) {
  Program program = pipeline_program(one_forward_one_backward(4, 2));
  InstructionList& third = program.lists[2];
  third.erase(third.begin() + find(third, Op::send, 2));  // of the first micro-batch's gradient
  for (Instruction& x : third) x.waits.clear();
  const std::string text = error_of(program);
  // What comes is the next message.
  EXPECT_TRUE(contains(text, "rank 1, instruction ")) << text;
  EXPECT_TRUE(contains(text, "micro-batch 0, from pipeline rank 2) is given another message: rank 2")) << text;

  program = pipeline_program(gpipe(2, 1));
  program.lists[0].pop_back();  // the backward, and the receive before it
  program.lists[0].pop_back();
  EXPECT_TRUE(contains(error_of(program),
                       "rank 1, instruction 4 (send of the gradient of the output of block 0 'layer0', "
                       "micro-batch 0, to pipeline rank 0): nobody receives it"))
      << error_of(program);

  program = pipeline_program(gpipe(2, 1));
  program.lists[1].pop_back();
  EXPECT_TRUE(contains(error_of(program),
                       "rank 0, instruction 3 (receive of the gradient of the output of block 0 'layer0', "
                       "micro-batch 0, from pipeline rank 1) never ends: rank 1 has come to the end"))
      << error_of(program);
}

TEST(Simulate, ranks_that_wait_for_one_another_are_named) {
  // Each receives before it sends.
  Program program = pipeline_program(gpipe(2, 1));
  for (int rank : {0, 1}) {
    const Instruction receive = {
        .op = Op::receive, .lane = Lane::comm, .first = 0, .last = 1, .micro = 0, .what = Matter::gradient, .peer = 1 - rank};
    Instruction send = receive;
    send.op = Op::send;
    send.waits = {0};
    program.lists[rank] = {receive, send};
  }
  EXPECT_TRUE(contains(error_of(program), "rank 0, instruction 0 (receive")) << error_of(program);
  EXPECT_TRUE(contains(error_of(program), "never ends: rank 1, instruction 1 (send")) << error_of(program);
}

TEST(Simulate, collectives_that_do_not_match_are_named) {
  Program program = data_parallel({{forward(1), reduce(1, {0})}, {forward(1)}});
  EXPECT_TRUE(contains(error_of(program), "rank 0, instruction 1 (reduce of block 0 'layer0') never ends: rank 1 has come"))
      << error_of(program);
  program.lists[1].push_back(reduce(1, {0}));
  program.lists[1][1].op = Op::reduce_loss;
  EXPECT_TRUE(contains(error_of(program), "rank 1, instruction 1 (reduce_loss) meets rank 0, instruction 1 (reduce of block"))
      << error_of(program);
  program.lists[1][1] = reduce(1, {1});
  EXPECT_TRUE(contains(error_of(program), "rank 1, instruction 1 (reduce of block 0 'layer0'): waits for instruction 1"));
}

}  // namespace
}  // namespace weft
