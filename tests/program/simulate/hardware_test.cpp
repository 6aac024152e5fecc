// Costs of instructions on hardware: work on a device, and rings and transfers between hosts.
#include "weft/program/simulate/hardware.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/program/pipelines.h"
#include "tests/program/simulate/hardware_error.h"
#include "weft/base/error.h"
#include "weft/program/simulate/network.h"
#include "weft/program/simulate/work_time.h"

namespace weft::hardware_test {
namespace {

using test::error_of;

Instruction on_block(Op op, double flops = 0.0) { return {.op = op, .first = 0, .last = 1, .micro = 0, .flops = flops}; }

Program one_block(int64_t numel = 0) { return toy_program(toy_model(1, numel)); }

TEST(WorkTime, operations_at_the_rate_that_is_reached) {
  Program program = one_block();
  const Hardware hardware = {.flops = 100.0, .narrow_flops = 800.0, .efficiency = 0.5, .launch_s = 0.25};
  EXPECT_EQ(WorkTime(program, hardware).seconds(on_block(Op::forward, 200.0)), 4.25);
  program.weight_bytes = 2;
  EXPECT_EQ(WorkTime(program, hardware).seconds(on_block(Op::forward, 200.0)), 0.75);
  EXPECT_EQ(WorkTime(program, hardware).seconds({.op = Op::load, .micro = 0}), 0.0);
  EXPECT_EQ(WorkTime(program, hardware).seconds(on_block(Op::drop)), 0.0);
}

TEST(WorkTime, bytes_where_they_take_longer) {
  const Program program = one_block(1000);
  const Hardware hardware = {.flops = 1.0, .memory_bytes_per_s = 1000.0};
  const WorkTime work(program, hardware);
  Instruction forward = on_block(Op::forward, 5.0);
  forward.allocates = 500;
  EXPECT_EQ(work.seconds(forward), 5.0) << "weights once, new tensors twice";
  forward.allocates = 2000;
  EXPECT_EQ(work.seconds(forward), 8.0);
  Instruction backward = on_block(Op::backward);
  backward.frees = 1000;
  EXPECT_EQ(work.seconds(backward), 10.0) << "the gradients too";
  EXPECT_EQ(work.seconds(on_block(Op::norm)), 4.0);
  EXPECT_EQ(work.seconds(on_block(Op::combine)), 12.0);
}

TEST(WorkTime, an_update_covers_the_ranks_part) {
  Program program = one_block(1000);
  program.shards = 4;
  Hardware hardware = {.memory_bytes_per_s = 1000.0};
  EXPECT_EQ(WorkTime(program, hardware).seconds(on_block(Op::update)), 7.0) << "28 bytes for each of 250";
  program.weight_bytes = program.gradient_bytes = 2;
  EXPECT_EQ(WorkTime(program, hardware).seconds(on_block(Op::update)), 7.0) << "2 of gradient, 24 of state, 2 of weight";
  hardware.update_s_per_element = 0.1;
  EXPECT_EQ(WorkTime(program, hardware).seconds(on_block(Op::update)), 25.0);
}

TEST(WorkTime, copies_move_their_bytes) {
  const Program program = one_block(1000);
  const Hardware hardware = {.offload = {.latency_s = 1.0, .bytes_per_s = 1000.0}};
  const WorkTime work(program, hardware);
  Instruction x = on_block(Op::offload);
  x.copy_bytes = 500;
  EXPECT_EQ(work.copy_seconds(x), 1.5);
  x.copy_bytes = 0;
  EXPECT_EQ(work.copy_seconds(x), 0.0) << "of nothing";
}

TEST(WorkTime, measured_times_take_precedence) {
  Program program = toy_program(toy_model(3, 0));
  program.block_names = {"embedding", "h.0", "h.10"};
  Hardware hardware = {.flops = 1.0, .launch_s = 0.5};
  hardware.blocks = {{.name = "h.*", .forward_s = 3.0, .input_s = 4.0, .weight_s = 2.0}, {.name = "h.1*", .forward_s = 7.0}};
  hardware.loss_s = 9.0;
  const WorkTime work(program, hardware);
  const auto seconds = [&](Op op, int block) {
    return work.seconds({.op = op, .first = block, .last = block + 1, .micro = 0, .flops = 1.0});
  };
  EXPECT_EQ(seconds(Op::forward, 0), 1.5) << "not measured";
  EXPECT_EQ(seconds(Op::forward, 1), 3.5);
  EXPECT_EQ(seconds(Op::forward, 2), 7.5) << "the longer name";
  EXPECT_EQ(seconds(Op::backward, 1), 6.5) << "both parts";
  EXPECT_EQ(seconds(Op::backward_input, 1), 4.5);
  EXPECT_EQ(seconds(Op::backward_weight, 1), 2.5);
  EXPECT_EQ(seconds(Op::backward, 2), 1.5) << "not measured for this one";
  EXPECT_EQ(work.seconds({.op = Op::loss, .micro = 0}), 9.5);
}

Hardware two_links(int ranks_per_host) {
  return {.ranks_per_host = ranks_per_host,
          .intra_host = {.latency_s = 0.5, .bytes_per_s = 40.0},
          .inter_host = {.latency_s = 2.0, .bytes_per_s = 8.0}};
}

Program on_mesh(const MeshSizes& mesh) {
  Program program = toy_program(toy_model(mesh.pp, 0));
  program.mesh = mesh;
  program.lists.resize(1);
  program.list_of_rank.assign(mesh.world(), 0);
  return program;
}

TEST(Network, a_ring_in_one_host_uses_the_fast_link) {
  const Program program = on_mesh({.dp = 2, .shard = 4});
  const Ranks ranks(program);
  const Hardware hardware = two_links(4);
  Network network(ranks, hardware);
  EXPECT_EQ(network.ring(kShardAxis).seconds({.op = Op::gather, .wire_bytes = 80}), 3 * 0.5 + 80 / 40.0);
  EXPECT_EQ(network.ring(kShardAxis).seconds({.op = Op::reduce_scatter, .wire_bytes = 80}), 3 * 0.5 + 80 / 40.0);
  EXPECT_EQ(network.ring(kShardAxis).seconds({.op = Op::reduce, .wire_bytes = 80}), 6 * 0.5 + 80 / 40.0);
  EXPECT_EQ(network.ring(kShardAxis).port, Port::host);
  // One member on each of two hosts, then four.
  EXPECT_EQ(network.ring(kReplicaAxis).seconds({.op = Op::reduce, .wire_bytes = 80}), 2 * 2.0 + 80 / 8.0);
  EXPECT_EQ(network.ring(kReplicaAxis).port, Port::network);
  EXPECT_EQ(network.ring(kDataAxes).seconds({.op = Op::reduce, .wire_bytes = 80}), 14 * 2.0 + 80 / 32.0);
}

TEST(Network, an_axis_is_as_slow_as_its_slowest_line) {
  // Three ranks per axis, four per host: the second line spans two hosts, with one member on the first.
  const Program program = on_mesh({.dp = 2, .shard = 3});
  const Ranks ranks(program);
  const Hardware hardware = two_links(4);
  Network network(ranks, hardware);
  EXPECT_EQ(network.ring(kShardAxis).link.bytes_per_s, 8.0);
  EXPECT_EQ(network.ring(kShardAxis).link.latency_s, 2.0);
  EXPECT_EQ(network.ring(kShardAxis).ranks, 3);
}

TEST(Network, in_two_levels_a_byte_crosses_once_for_a_host) {
  const Program program = on_mesh({.dp = 2, .shard = 4});
  const Ranks ranks(program);
  Hardware hardware = two_links(4);
  hardware.two_levels = true;
  hardware.overlap = false;
  Network network(ranks, hardware);
  // Rings of 8 ranks would send 2 x 7/8 of 160 bytes per rank, or 7/8. A host sends 2 x 1/2 of the whole in an all-reduce, 1/2
  // in the halves, through its four ports at 8 bytes per second each; inside it 3/4 moves each way at 40.
  const Ring& all = network.ring(kDataAxes);
  EXPECT_EQ(all.port, Port::network);
  EXPECT_DOUBLE_EQ(all.seconds({.op = Op::reduce, .wire_bytes = 280}), 2 * 2.0 + 160 / 32.0 + 2 * (0.5 + 120 / 40.0));
  EXPECT_DOUBLE_EQ(all.seconds({.op = Op::reduce_scatter, .wire_bytes = 140}), 2.0 + 80 / 32.0 + 0.5 + 120 / 40.0);
  EXPECT_DOUBLE_EQ(all.seconds({.op = Op::gather, .wire_bytes = 140}), 2.0 + 80 / 32.0 + 0.5 + 120 / 40.0);
  // One per host: nothing to reduce inside.
  EXPECT_DOUBLE_EQ(network.ring(kReplicaAxis).seconds({.op = Op::reduce, .wire_bytes = 80}), 2 * 2.0 + 80 / 8.0);
  EXPECT_EQ(network.ring(kShardAxis).seconds({.op = Op::gather, .wire_bytes = 80}), 3 * 0.5 + 80 / 40.0) << "a ring in a host";
  hardware.narrow_across = true;
  EXPECT_DOUBLE_EQ(Network(ranks, hardware).ring(kReplicaAxis).seconds({.op = Op::reduce, .wire_bytes = 80000}),
                   2 * 2.0 + 40000 / 8.0);
  EXPECT_DOUBLE_EQ(Network(ranks, hardware).ring(kReplicaAxis).seconds(InnerCall{.axes = kReplicaAxis, .wire_bytes = 80000}),
                   2 * 2.0 + 80000 / 8.0)
      << "a sum of activations";
  EXPECT_TRUE(network.overlaps_compute(Port::network));
  EXPECT_FALSE(network.overlaps_compute(Port::host));
}

TEST(Network, ranks_on_fewer_cores_take_turns_inside_their_host) {
  const Program program = on_mesh({.dp = 4, .shard = 2});
  const Ranks ranks(program);
  Hardware hardware = two_links(4);
  hardware.cores.per_host = 2;
  hardware.two_levels = true;
  const Instruction gather = {.op = Op::gather, .wire_bytes = 80}, reduce = {.op = Op::reduce, .wire_bytes = 280};
  EXPECT_DOUBLE_EQ(Network(ranks, hardware).ring(kShardAxis).seconds(gather), 2 * (0.5 + 80 / 40.0))
      << "two pairs of a host move bytes at once";
  EXPECT_DOUBLE_EQ(Network(ranks, hardware).ring(kDataAxes).seconds(reduce), 2 * 2.0 + 160 / 32.0 + 2 * 2 * (0.5 + 120 / 40.0))
      << "only inside";
  const Program pipeline = on_mesh({.pp = 2, .shard = 2});
  const Ranks stages(pipeline);
  EXPECT_DOUBLE_EQ(Network(stages, hardware).ring(kShardAxis).seconds(gather), 0.5 + 80 / 40.0) << "the other stage computes";
}

TEST(Network, rings_take_their_costs_by_size_and_hosts) {
  const Program program = on_mesh({.dp = 2, .shard = 4});
  const Ranks ranks(program);
  Hardware hardware = two_links(4);
  hardware.collectives = {
      .start_s = 3.0, .all_reduce_start_s = 5.0, .half_rate_bytes = 1000.0, .half_rate_power = 0.5, .hop_s = 7.0};
  Network network(ranks, hardware);
  // 30 bytes sent by each of 4 ranks: a buffer of 40; of 20 for an all-reduce, which goes round twice.
  const Ring& inside = network.ring(kShardAxis);
  EXPECT_DOUBLE_EQ(inside.seconds({.op = Op::gather, .wire_bytes = 30}), 3.0 + 30 / 40.0 * (1.0 + std::sqrt(1000.0 / 40)));
  EXPECT_DOUBLE_EQ(inside.seconds({.op = Op::reduce, .wire_bytes = 30}), 5.0 + 30 / 40.0 * (1.0 + std::sqrt(1000.0 / 20)));
  EXPECT_EQ(inside.seconds(InnerCall{.axes = kShardAxis, .rounds = 6, .wire_bytes = 30}),
            inside.seconds({.op = Op::reduce, .wire_bytes = 30}));
  EXPECT_EQ(inside.seconds({.op = Op::reduce, .wire_bytes = 0}), 0.0);
  // One port between two hosts: a hop per rank, or for all-reduces a tree both ways if that is less.
  const Ring& across = network.ring(kReplicaAxis);
  EXPECT_DOUBLE_EQ(across.seconds({.op = Op::reduce_scatter, .wire_bytes = 80}), 3.0 + 2 * 7.0 + 80 / 8.0);
  EXPECT_DOUBLE_EQ(across.seconds({.op = Op::reduce, .wire_bytes = 80}), 5.0 + 2 * 2 * 7.0 + 80 / 8.0);
  // Four ports; 8 ranks.
  EXPECT_DOUBLE_EQ(network.ring(kDataAxes).seconds({.op = Op::gather, .wire_bytes = 80}), 3.0 + 8 * 7.0 + 80 / 32.0);
  EXPECT_DOUBLE_EQ(network.ring(kDataAxes).seconds({.op = Op::reduce, .wire_bytes = 80}), 5.0 + 2 * 8 * 7.0 + 80 / 32.0);
  const Program large = on_mesh({.dp = 64, .shard = 4});
  const Ranks many(large);
  EXPECT_DOUBLE_EQ(Network(many, hardware).ring(kDataAxes).seconds({.op = Op::reduce, .wire_bytes = 80}),
                   5.0 + 2 * (4 * 6 + 4) * 7.0 + 80 / 32.0)
      << "256 ranks on 64 hosts: 4 hops for each of 6 levels of a tree, and 4 inside";
}

TEST(Network, other_software_moves_bytes_in_its_own_way) {
  const Program program = on_mesh({.pp = 2, .tp = 4});
  const Ranks ranks(program);
  Hardware hardware = two_links(4);
  hardware.operators.emplace();
  hardware.collectives = {.start_s = 3.0, .all_reduce_start_s = 5.0, .hop_s = 7.0};
  hardware.software.emplace();
  const Instruction gather = {.op = Op::gather, .wire_bytes = 80};
  EXPECT_EQ(Network(ranks, hardware).ring(kTensorAxis).seconds(gather), 3.0 + 80 / 40.0);
  hardware.software->calls_per_block = 4.0;
  hardware.software->gradient_traffic = 2.0;
  EXPECT_EQ(Network(ranks, hardware).ring(kTensorAxis).seconds(gather), 4 * 3.0 + 80 / 40.0);
  const Instruction sum = {.op = Op::reduce_scatter, .wire_bytes = 80};
  EXPECT_EQ(Network(ranks, hardware).ring(kTensorAxis).seconds(sum), 2 * (4 * 3.0 + 80 / 40.0));
  hardware.software->hidden_gathers = 0.25;
  EXPECT_EQ(Network(ranks, hardware).ring(kTensorAxis).seconds(gather), 0.75 * (4 * 3.0 + 80 / 40.0));
  hardware.software->calls_per_block = 1.0, hardware.software->hidden_gathers = 0.0;
  const auto message = [&](bool all_same) {
    Network network(ranks, hardware);
    const auto [bytes, link] = network.split(80.0, network.link(0, 1), all_same);
    return link.seconds(bytes);
  };
  EXPECT_EQ(message(true), 2.0 + 80 / 8.0);
  hardware.software->split_messages = true;
  EXPECT_EQ(message(true), 2.0 + 20 / 8.0 + 3.0 + 60 / 40.0) << "a part across, and a gather of the rest inside the host";
  EXPECT_EQ(message(false), 2.0 + 80 / 8.0) << "each rank of tp has its own";
}

TEST(Network, other_softwares_passes_wait_for_the_calls_of_forward) {
  Program program = on_mesh({.tp = 4});
  const InnerCall sum = {.axes = kTensorAxis, .rounds = 6, .wire_bytes = 80, .begins_at = 1.0, .waited_at = 2.0};
  program.block_calls = {{.forward = {sum}, .backward = {sum, sum, sum}, .input = {sum}, .weight = {}}};
  const Ranks ranks(program);
  Hardware hardware = two_links(4);
  hardware.collectives = {.start_s = 3.0, .all_reduce_start_s = 5.0, .hop_s = 7.0, .taken_from_compute = 0.5};
  const auto seconds = [&](Op op) {
    return Network(ranks, hardware).seconds(program, {.op = op, .first = 0, .last = 1, .flops = 4.0}, 20.0);
  };
  const double call_s = 5.0 + 80 / 40.0;
  EXPECT_EQ(seconds(Op::forward), 20.0 + 2.0 + 0.5 * 5.0) << "5 s of 7 beside the work before its wait";
  hardware.operators.emplace();
  hardware.software = SoftwareCosts{.hidden_tensor = 0.25};
  EXPECT_EQ(seconds(Op::forward), 20.0 + 0.75 * call_s);
  EXPECT_EQ(seconds(Op::backward), 20.0 + 0.75 * call_s);
  EXPECT_EQ(seconds(Op::backward_weight), 20.0);
  hardware.software->repeated_calls = 1.0;
  hardware.software->gathered_again = 0.5;
  EXPECT_EQ(seconds(Op::forward), 20.0 + 0.75 * call_s);
  EXPECT_EQ(seconds(Op::backward), 20.0 + 2 * 0.75 * call_s);
  program.partial_gradients = true;
  EXPECT_EQ(seconds(Op::backward), 20.0 + 2.5 * 0.75 * call_s) << "with sequence parallelism inputs are gathered again";
}

TEST(Network, tied_weights_meet_on_their_holders) {
  Program program = on_mesh({.pp = 4, .dp = 2});
  program.holders = {{0, 3}, {1}, {2}, {3}};
  const Ranks ranks(program);
  const Hardware hardware = two_links(8);
  Network network(ranks, hardware);
  EXPECT_EQ(network.ring(kPipelineAxis, 0).ranks, 2);
  EXPECT_EQ(network.ring(kPipelineAxis, 1).ranks, 1);
  EXPECT_EQ(network.ring(kPipelineAxis, 1).seconds({.op = Op::reduce, .wire_bytes = 80}), 0.0);
}

TEST(Network, neighbours_of_a_pipeline_may_share_a_host) {
  const Program program = on_mesh({.pp = 4, .dp = 2});
  const Ranks ranks(program);
  const Hardware hardware = two_links(4);
  Network network(ranks, hardware);
  EXPECT_EQ(network.link(0, 1).bytes_per_s, 40.0);
  EXPECT_EQ(network.link(1, 2).bytes_per_s, 8.0);
  EXPECT_EQ(network.link(3, 2).bytes_per_s, 40.0);
}

TEST(Hardware, numbers_that_make_no_sense_are_refused) {
  EXPECT_EQ(error_of(Hardware{}), "no error");
  EXPECT_EQ(error_of(nominal_hardware()), "no error");
  EXPECT_EQ(error_of({.name = "x", .flops = 0.0}), "hardware 'x': flops is 0, must be at least 1 and at most 1e+18, or inf");
  EXPECT_EQ(error_of({.name = "x", .flops = 1e300}),
            "hardware 'x': flops is 1e+300, must be at least 1 and at most 1e+18, or inf");
  EXPECT_EQ(error_of({.name = "x", .flops = 1e-300}),
            "hardware 'x': flops is 1e-300, must be at least 1 and at most 1e+18, or inf");
  EXPECT_EQ(error_of({.name = "x", .memory_bytes = 1e19}),
            "hardware 'x': memory_bytes is 1e+19, must be at least 1 and at most 1e+18, or inf");
  EXPECT_EQ(error_of({.name = "x", .efficiency = 1.5}), "hardware 'x': efficiency is 1.5, must be at most 1");
  EXPECT_EQ(error_of({.name = "x", .ranks_per_host = 0}), "hardware 'x': ranks_per_host is 0, must be above 0");
  EXPECT_EQ(error_of({.name = "x", .inter_host = {.latency_s = -1.0}}),
            "hardware 'x': inter_host.latency_s is -1, must be at least 0 and finite");
  EXPECT_EQ(error_of({.name = "x", .offload = {.bytes_per_s = std::numeric_limits<double>::quiet_NaN()}}),
            "hardware 'x': offload.bytes_per_s is nan, must be at least 1 and at most 1e+18, or inf");
  EXPECT_EQ(error_of({.name = "x", .blocks = {{.name = "b", .weight_s = kFree}}}),
            "hardware 'x': a time of block 'b' is inf, must be at least 0 and finite");
}

TEST(Hardware, long_names_are_shortened) {
  const std::string name(5000, 'x');
  EXPECT_LT(error_of({.name = name, .flops = 0.0}).size(), 500U);
  EXPECT_LT(error_of({.name = "x", .blocks = {{.name = name, .weight_s = kFree}}}).size(), 500U);
  try {
    check_block_times({.name = name, .blocks = {{.name = name, .forward_s = 1.0}}}, {"h.0"});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_LT(std::string(error.what()).size(), 800U) << error.what();
  }
}

TEST(Hardware, blocks_without_times_are_listed_if_others_have_times) {
  const std::vector<std::string> blocks = {"embedding", "h.0", "h.1", "h.2", "h.3", "head"};
  const auto note = [&blocks](const std::vector<const char*>& timed) {
    Hardware hardware;
    for (const char* name : timed) hardware.blocks.push_back({.name = name, .forward_s = 1.0});
    return untimed_blocks_text(hardware, blocks);
  };
  EXPECT_EQ(note({}), "");
  EXPECT_EQ(note({"*"}), "");
  EXPECT_EQ(note({"embedding", "h.0", "h.1", "head"}), "no times of blocks h.2 to h.3: counted operations");
  EXPECT_EQ(note({"h.*", "head"}), "no times of block embedding: counted operations");
  EXPECT_EQ(note({"h.2"}), "no times of blocks embedding, h.0 to h.1, h.3, head: counted operations");
}

}  // namespace
}  // namespace weft::hardware_test
