// Refusals of simulate(), and its errors for deadlocks, mismatches and unknown links.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/program/build/written_out.h"
#include "tests/program/pipelines.h"
#include "weft/base/error.h"
#include "weft/program/simulate/simulate.h"

namespace weft {
namespace {

std::string error_of(const Program& program, const Hardware& hardware = slow_device()) {
  try {
    simulate(program, hardware);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(SimulateRefusals, a_step_without_end_is_refused) {
  Hardware hardware = slow_device();
  hardware.name = "tortoise";
  hardware.efficiency = 1e-300;
  for (const double flops : {1.0, 1e300}) {
    const Program program = two_stages({forward(flops)}, {});
    try {
      simulate(program, hardware);
      ADD_FAILURE();
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()),
                fmt::format("simulate: a step on hardware 'tortoise' would take {} s; its rates are operations and bytes per "
                            "second, its times seconds",
                            flops == 1.0 ? "1e+300" : "inf"));
    }
  }
}

constexpr Link kUnknown = {.is_known = false};

TEST(SimulateRefusals, an_unknown_link_is_named) {
  Hardware hardware = slow_device();
  hardware.intra_host = hardware.inter_host = hardware.offload = kUnknown;
  const Program alone = copies({forward(1), reduce(4, {0})}, 1);
  EXPECT_EQ(simulate(alone, hardware).step_s, 1.0) << "no rank to send to";
  const Program pair = copies({forward(1), reduce(4, {0})}, 2);
  EXPECT_EQ(error_of(pair, hardware),
            "hardware 'slow' has no inter_host, which axis 'dp+shard' (ranks 0 to 1) needs: add [inter_host] with "
            "latency_s and bytes_per_s (inf: free)");
  hardware.ranks_per_host = 2;
  EXPECT_NE(error_of(pair, hardware).find("has no intra_host"), std::string::npos) << error_of(pair, hardware);
  hardware.intra_host = {.bytes_per_s = 4};
  EXPECT_EQ(simulate(pair, hardware).step_s, 2.0) << "the other is not needed";
  EXPECT_NE(error_of(copies({forward(1), reduce(4, {0})}, 4), hardware).find("has no inter_host"), std::string::npos);
}

TEST(SimulateRefusals, a_pipeline_names_the_link_that_it_lacks) {
  Hardware hardware = slow_device();
  hardware.inter_host = kUnknown;
  const Program program =
      two_stages({forward(3), transfer(Op::send, 1, 8, {0})}, {transfer(Op::receive, 0, 8), forward(5, {0})});
  EXPECT_EQ(error_of(program, hardware),
            "hardware 'slow' has no inter_host, which pipeline rank 0 to reach 1 needs: add [inter_host] with latency_s "
            "and bytes_per_s (inf: free)");
}

TEST(SimulateRefusals, unknown_slower_memory_is_named) {
  Hardware hardware = slow_device();
  hardware.offload = kUnknown;
  const Program program = copies(
      {{.op = Op::reload, .lane = Lane::copy, .first = 0, .last = 1, .micro = 0, .what = Payload::input, .copy_bytes = 12}}, 1);
  EXPECT_NE(error_of(program, hardware).find("has no offload, which moving state out needs: add [offload]"), std::string::npos);
}

TEST(SimulateRefusals, times_of_blocks_that_are_not_there_are_refused) {
  Hardware hardware = slow_device();
  const Program program = copies({forward(1)}, 1);
  hardware.blocks = {{.name = "layer*", .forward_s = 2.0}, {.name = "layer0", .forward_s = 3.0}};
  EXPECT_EQ(simulate(program, hardware).step_s, 3.0);
  for (const char* name : {"lyer0", "lyer*"}) {
    hardware.blocks[1].name = name;
    EXPECT_EQ(error_of(program, hardware),
              fmt::format("hardware 'slow': [[block]] gives times of block '{}', which the model does not have; did you mean "
                          "'layer0'?",
                          name));
  }
}

TEST(SimulateRefusals, a_deadlock_is_named) {
  const std::string message = "of the output of block 0 'layer0', micro-batch 0, ";
  std::string text = error_of(two_stages({forward(1)}, {forward(1), transfer(Op::receive, 0, 1)}));
  EXPECT_TRUE(
      contains(text, "rank 1, instruction 1 (receive " + message + "from pipeline rank 0) never ends: rank 0 has finished"))
      << text;
  text = error_of(two_stages({forward(1), transfer(Op::send, 1, 1)}, {forward(1)}));
  EXPECT_TRUE(contains(text, "rank 0, instruction 1 (send " + message + "to pipeline rank 1): never received; rank 1 has"))
      << text;
  text = error_of(two_stages({transfer(Op::send, 0, 1)}, {}));
  EXPECT_TRUE(contains(text, "rank 0, instruction 0 (send " + message + "to pipeline rank 0): peer 0 must be another of"))
      << text;
  Instruction other = transfer(Op::receive, 0, 1);
  other.micro = 1;
  Program other_message = two_stages({transfer(Op::send, 1, 1)}, {other});
  other_message.micro_batches = 2;
  text = error_of(other_message);
  EXPECT_TRUE(contains(text, "from pipeline rank 0) gets another message: rank 0, instruction 0 (send " + message)) << text;
}

TEST(SimulateRefusals, the_first_cause_is_named) {
  Program program = data_parallel(
      {{transfer(Op::receive, 1, 1)}, {transfer(Op::receive, 2, 1), transfer(Op::send, 0, 1, {0})}, {forward(1)}});
  program.replicas = 1;
  program.mesh = {.pp = 3};
  EXPECT_TRUE(contains(error_of(program), "rank 1, instruction 0 (receive of")) << error_of(program);
  EXPECT_TRUE(contains(error_of(program), "never ends: rank 2 has finished")) << error_of(program);
}

TEST(SimulateRefusals, ranks_that_wait_for_one_another_are_named) {
  // Each receives before it sends.
  const Program program = two_stages({transfer(Op::receive, 1, 1), transfer(Op::send, 1, 1, {0})},
                                     {transfer(Op::receive, 0, 1), transfer(Op::send, 0, 1, {0})});
  EXPECT_TRUE(contains(error_of(program), "rank 0, instruction 0 (receive")) << error_of(program);
  EXPECT_TRUE(contains(error_of(program), "never ends: rank 1, instruction 1 (send")) << error_of(program);
}

TEST(SimulateRefusals, collectives_that_do_not_match_are_named) {
  Program program = data_parallel({{forward(1), reduce(1, {0})}, {forward(1)}});
  EXPECT_TRUE(contains(error_of(program), "rank 0, instruction 1 (reduce of block 0 'layer0') never ends: rank 1 has finished"))
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
