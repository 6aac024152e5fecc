// Calls of blocks while they run: declared by instructions, charged by simulate(), shown by draw() and list(), and their
// defects found by verify().
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/program/pipeline/schedule_table.h"
#include "tests/program/pipelines.h"
#include "tests/program/split_model.h"
#include "tests/program/verify/spoil.h"
#include "weft/base/error.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/draw/draw.h"
#include "weft/program/limits.h"
#include "weft/program/simulate/simulate.h"

namespace weft::inner_calls_test {
namespace {

constexpr int kBlocks = 3, kMicroBatches = 2;

Program split_program(StepLayout layout) {
  const ModelCost model = split_model(splittable(toy_model(kBlocks)), layout.cp, layout.tp);
  layout.micro_batches = kMicroBatches;
  return build_program(model, layout);
}

int64_t declared(const InstructionList& list, Op op) {
  int64_t bytes = -1;  // of each call, all alike
  for (const Instruction& x : list) {
    if (x.op != op) continue;
    EXPECT_TRUE(bytes < 0 || x.wire_bytes == bytes) << x.wire_bytes;
    bytes = x.wire_bytes;
  }
  return bytes;
}

TEST(InnerCalls, instructions_declare_their_bytes) {
  const struct {
    int cp, tp;
    int64_t forward, backward, loss, step;
  } cases[] = {{1, 1, 0, 0, 0, 0}, {1, 2, 10, 20, 1, 182}, {2, 1, 3, 6, 0, 54}, {2, 2, 13, 26, 1, 236}};
  for (const auto& c : cases) {
    SCOPED_TRACE(fmt::format("cp {} tp {}", c.cp, c.tp));
    const Program program = split_program({.cp = c.cp, .tp = c.tp});
    verify(program);
    for (int rank = 0; rank < program.world_size(); ++rank) {
      EXPECT_EQ(declared(program.of(rank), Op::forward), c.forward);
      EXPECT_EQ(declared(program.of(rank), Op::backward), c.backward);
      EXPECT_EQ(declared(program.of(rank), Op::loss), c.loss);
      EXPECT_EQ(step_cost(program.of(rank)).inner_wire_bytes, c.step);
    }
  }
}

TEST(InnerCalls, parts_of_a_split_backward_declare_theirs) {
  const ModelCost model = split_model(splittable(toy_model(8)), 2, 2);
  const Program program = build_program(model, pipelined({.cp = 2, .tp = 2}, schedule_named("zb-h1"), 2, 4));
  verify(program);
  for (const InstructionList& list : program.lists) {
    EXPECT_EQ(declared(list, Op::forward), 13);
    EXPECT_EQ(declared(list, Op::backward_input), 21);
    EXPECT_EQ(declared(list, Op::backward_weight), 5);
  }
}

TEST(InnerCalls, blocks_that_run_again_send_again) {
  const Program program = split_program({.tp = 2, .recompute = {.every = 1}});
  verify(program);
  EXPECT_EQ(step_cost(program.of(0)).inner_wire_bytes, 182 + kMicroBatches * (kBlocks - 1) * 10)
      << "all but the last, whose backward comes next";
}

// Each call takes its rounds of latency and its bytes' time, along cp and tp alike inside a host.
TEST(InnerCalls, simulate_charges_them) {
  const Hardware hardware = slow_device({.latency_s = 0.5, .bytes_per_s = 4});
  for (const auto& [cp, tp, rounds, bytes] : {std::tuple(1, 2, 6 * kBlocks + 2, 91), std::tuple(2, 1, 3 * kBlocks, 27)}) {
    SCOPED_TRACE(fmt::format("cp {} tp {}", cp, tp));
    const Program with = split_program({.cp = cp, .tp = tp});
    Program without = with;
    without.block_calls.clear();
    without.loss_calls.clear();
    const double more = simulate(with, hardware).step_s - simulate(without, hardware).step_s;
    EXPECT_NEAR(more, kMicroBatches * (rounds * 0.5 + bytes / 4.0), 1e-6);
  }
}

/// Extra time of a forward, at one operation per second, with these calls of one second each.
double more_seconds(std::vector<InnerCall> calls, bool overlap = true) {
  Program program = split_program({.tp = 2});
  Hardware hardware = slow_device({.latency_s = 0.0, .bytes_per_s = 1});
  hardware.overlap = overlap;
  program.block_calls.assign(kBlocks, {});
  program.loss_calls.clear();
  const double alone = simulate(program, hardware).step_s;
  program.block_calls[0].forward = std::move(calls);
  return (simulate(program, hardware).step_s - alone) / kMicroBatches;
}

// A call overlaps compute until its wait; one call at a time.
TEST(InnerCalls, simulate_overlaps_them_with_compute) {
  const InstructionList list = split_program({.tp = 2}).of(0);
  const double flops = std::find_if(list.begin(), list.end(), [](const auto& x) { return x.op == Op::forward; })->flops;
  ASSERT_GE(flops, 2.0);
  const auto call = [](double begins_at, double waited_at) { return InnerCall{kTensorAxis, 1, 1, begins_at, waited_at}; };
  struct {
    const char* what;
    std::vector<InnerCall> calls;
    double more;
  } const cases[] = {
      {"awaited at once", {call(0, 0), call(flops, flops)}, 2},
      {"hidden", {call(0, flops)}, 0},
      {"hidden in part", {call(flops - 0.25, flops)}, 0.75},
      {"two on one line", {call(flops - 1, flops), call(flops - 1, flops)}, 1},
      {"awaited in another order", {call(0, flops), call(1, 1)}, 1},
      {"behind another", {call(0, flops), call(0.5, 0.5)}, 1.5},
      {"beyond the end", {call(flops + 5, flops + 9)}, 1},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    EXPECT_NEAR(more_seconds(c.calls), c.more, 1e-9);
    EXPECT_NEAR(more_seconds(c.calls, /*overlap=*/false), static_cast<double>(c.calls.size()), 1e-9);
  }
}

TEST(InnerCalls, drawings_and_lists_show_them) {
  const Program program = split_program({.tp = 2});
  EXPECT_NE(draw(program).find("inside blocks 182 B"), std::string::npos) << draw(program);
  EXPECT_EQ(draw(split_program({.dp = 2})).find("inside blocks"), std::string::npos);
  const std::string text = list(program, 0);
  const size_t forward = text.find("forward of block 0");
  ASSERT_NE(forward, std::string::npos) << text;
  EXPECT_NE(text.substr(forward, text.find('\n', forward) - forward).find(" 10 B"), std::string::npos) << text;
}

struct Wrong {
  const char* what;
  Defect defect;
  std::function<void(Program&)> change;
  const char* says;
};

TEST(InnerCalls, verify_refuses_impossible_calls) {
  const auto first = [](Program& x) -> InnerCall& { return x.block_calls[1].forward[0]; };
  const Wrong cases[] = {
      {"along the replicas", Defect::wrong_axis, [&](Program& x) { first(x).axes = kReplicaAxis; },
       "call 0 inside the forward of block 1 'layer1': along dp: must be along cp+tp"},
      {"along more", Defect::wrong_axis, [&](Program& x) { first(x).axes = kTensorAxis | kPipelineAxis; }, "along pp+tp"},
      {"along no axis", Defect::wrong_axis, [&](Program& x) { first(x).axes = kNoAxes; }, "along none: must be"},
      {"along one that is not", Defect::wrong_axis, [&](Program& x) { first(x).axes = AxisSet::of_bits(0x80); },
       "an unknown axis"},
      {"along one of one rank", Defect::wrong_axis,
       [](Program& x) {
         x.block_calls[0].weight = {{kContextAxis, 1, 1}};
       },
       "call 0 inside the backward_weight of block 0 'layer0': along cp, on which the mesh has one rank"},
      {"negative bytes", Defect::bad_bytes, [&](Program& x) { first(x).wire_bytes = -1; }, "it sends -1 bytes"},
      {"absurd bytes", Defect::bad_bytes, [&](Program& x) { first(x).wire_bytes = INT64_MAX; }, "at most 1152921504606846976"},
      {"absurd bytes together", Defect::bad_bytes,
       [](Program& x) {
         x.loss_calls.assign(3, {kTensorAxis, 1, kMostBytes / 2});
       },
       "call 2 inside the loss"},
      {"rounds", Defect::out_of_range, [&](Program& x) { first(x).rounds = -7; }, "-7 sequential messages"},
      {"not of every block", Defect::out_of_range, [](Program& x) { x.block_calls.pop_back(); },
       "calls inside blocks are given for 2 blocks of 3"},
      {"more than is declared", Defect::bad_bytes, [](Program& x) { x.block_calls[2].backward[0].wire_bytes += 1; },
       "it declares 20 bytes sent, but calls inside it send 21"},
      {"declared, and not there", Defect::bad_bytes, [](Program& x) { x.block_calls.clear(); },
       "it declares 10 bytes sent, but calls inside it send 0"},
      {"begins before the one before it", Defect::out_of_range,
       [&](Program& x) {
         first(x).begins_at = first(x).waited_at = 5.0;
         x.block_calls[1].forward.push_back({kTensorAxis, 1, 0});
       },
       "call 1 inside the forward of block 1 'layer1': it begins after 0 operations and is waited for after 0"},
      {"waited for before it begins", Defect::out_of_range, [&](Program& x) { first(x).waited_at = -1.0; }, "for after -1"},
      {"waited for after a NaN", Defect::out_of_range, [&](Program& x) { first(x).waited_at = NAN; }, "waited for after nan"},
      {"a loss that declares others", Defect::bad_bytes, [](Program& x) { x.loss_calls.clear(); }, "(loss of micro-batch 0)"},
  };
  const Program good = split_program({.tp = 2});
  for (const Wrong& c : cases) {
    SCOPED_TRACE(c.what);
    Program program = good;
    c.change(program);
    try {
      verify(program);
      ADD_FAILURE() << "taken";
    } catch (const VerifyError& error) {
      EXPECT_EQ(name(error.defect), name(c.defect)) << error.what();
      EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    }
  }
}

/// Gives the world rank a list of its own.
void give_own_list(Program& program, int rank, const std::function<void(List&)>& change) {
  List own = program.of(rank);
  change(own);
  program.buffers.push_back(program.buffers_of(rank));
  program.list_of_rank[rank] = static_cast<int>(program.lists.size());
  program.lists.push_back(link_waits(std::move(own), program, program.buffers.back()));
}

/// Both micro-batches forward before either backward, in either order.
Program two_forwards(const StepLayout& layout) {
  Program program = split_program(layout);
  List& x = program.lists[0];
  move(x, find(x, "load1"), 1);
  for (int b = 0; b < kBlocks; ++b) move(x, find(x, fmt::format("forward{}.1", b)), find(x, "loss0"));
  x = link_waits(std::move(x), program, program.buffers[0]);
  return program;
}

// Collectives are in order; only calls of blocks are not.
TEST(InnerCalls, peers_that_run_blocks_in_another_order_are_found) {
  const auto swap = [](List& x) { move(x, find(x, "forward0.1"), find(x, "forward0.0")); };
  struct {
    const char* what;
    StepLayout layout;
    int rank;
    bool found;
  } const cases[] = {
      {"a tp peer", {.tp = 2}, 1, true},
      {"the second of four tp peers", {.tp = 4}, 1, true},
      {"the last cp peer", {.cp = 2}, 1, true},
      {"a peer in both", {.cp = 2, .tp = 2}, 3, true},
      {"a peer of the second replica", {.tp = 2, .dp = 2}, 3, true},
      {"a replica alone in its forward", {.dp = 2}, 1, false},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    Program program = two_forwards(c.layout);
    verify(program);
    give_own_list(program, c.rank, [](List& x) { x = List(x); });
    verify(program);  // equal lists count as one
    give_own_list(program, c.rank, swap);
    if (c.found) {
      expect_defect(program, Defect::order_mismatch, "both must run the same in the same order", c.rank);
    } else {
      verify(program);
    }
  }
}

TEST(InnerCalls, a_model_with_bytes_that_cannot_be_is_refused_before_it_is_built) {
  for (const int64_t bytes : {int64_t{-1}, INT64_MAX, kMostBytes / 8}) {
    ModelCost model = split_model(toy_model(kBlocks), 1, 2);
    for (BlockCost& block : model.blocks) block.calls.forward[0].wire_bytes = bytes;
    try {
      build_program(model, {.tp = 2, .micro_batches = 8});
      ADD_FAILURE() << bytes;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("bytes inside blocks, must be 0 to"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft::inner_calls_test
