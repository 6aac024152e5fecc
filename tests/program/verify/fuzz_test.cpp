// Programs with indices and sizes out of range: every function that takes a program refuses them in one line, without invalid
// reads (with the asan preset). WEFT_FUZZ=100000 makes that many.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "tests/program/random_program.h"
#include "tests/program/split_model.h"
#include "tests/program/verify/wrong_index.h"
#include "weft/program/buffers.h"
#include "weft/program/build/step_bytes.h"
#include "weft/program/check_program.h"
#include "weft/program/draw/draw.h"
#include "weft/program/draw/svg.h"
#include "weft/program/draw/time_chart.h"
#include "weft/program/draw/trace.h"
#include "weft/program/fingerprint.h"
#include "weft/program/limits.h"
#include "weft/program/passes/waits.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/simulate/simulation.h"
#include "weft/program/stage_ranks.h"
#include "weft/program/timed.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

// Errors are from weft's one family, and one line long.
bool accepts(const std::function<void()>& take) {
  try {
    take();
    return true;
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_FALSE(text.empty());
    EXPECT_LT(text.size(), 3000U);
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return false;
  }
}

void draw_all(const Program& program) {
  const std::vector<TimedInstruction> timed = timed_instructions(program, simulate(program, counted_operations()));
  time_chart(program, timed);
  draw_svg(program, timed);
  trace_json(program, timed);
}

bool takes_too_long(const Program& program) {
  double flops = 0.0;
  for (const InstructionList& list : program.lists) {
    for (const Instruction& x : list) flops += x.flops;
  }
  return flops > 1e20;
}

/// Over tp and cp too, with blocks that call others, except with a master.
RandomLayout split(RandomLayout x, test::Random& random) {
  if (x.layout.master) return x;
  x.layout.cp = 1 + random.below(2);
  x.layout.tp = 1 + random.below(2);
  x.model = split_model(x.model, x.layout.cp, x.layout.tp);
  return x;
}

void link_again(const Program& program) {
  if (program.buffers.empty()) return;
  for (const InstructionList& list : program.lists) {
    link_waits(list, program, program.buffers[0]);
    weight_buffers(list, program);
    gradient_buffers(list, program, 1);
  }
}

TEST(Fuzz, a_program_with_wrong_numbers_is_refused_or_works) {
  Program good;
  int verified = 0;
  for (const unsigned seed : test::seeds(test::fuzz_cases(400))) {
    SCOPED_TRACE(test::replay(seed));
    test::Random random(seed + 1);
    // A correct program takes longer to build than to damage.
    if (good.lists.empty() || seed % 8 == 0 || std::getenv("WEFT_SEED") != nullptr) {
      test::Random shared(seed / 8 * 8);
      good = build_random(seed % 16 < 8 ? random_layout(shared) : split(random_layout(shared), shared));
    }
    Program program = good;
    FieldDamage(program, random).change_some();
    const bool is_verified = accepts([&] { verify(program); });
    const bool in_range = accepts([&] { check_program(program); });
    EXPECT_LE(is_verified, in_range);
    const bool simulated = accepts([&] { draw_all(program); });
    EXPECT_TRUE(in_range || !simulated);
    EXPECT_EQ(accepts([&] { draw(program); }), in_range);
    for (const int rank : {-1, 0, 1, program.world_size()}) {
      accepts([&] { list(program, rank); });
      accepts([&] { estimate_memory(program, rank, {}); });
    }
    EXPECT_EQ(accepts([&] { stage_rank_of_block(program); }), in_range);
    accepts([&] { link_again(program); });
    accepts([&] { fingerprint(program); });
    if (is_verified) ++verified;
    EXPECT_TRUE(simulated || !is_verified || takes_too_long(program)) << "verified programs can be simulated";
    if (::testing::Test::HasFailure()) return;
  }
  RecordProperty("verified", verified);
}

// Errors as the program's author would see them.
TEST(Fuzz, wrong_numbers_are_named) {
  struct Case {
    const char* what;
    std::function<void(Program&)> change;
    const char* says;
  };
  const Case cases[] = {
      {"a block uses an unknown one", [](Program& x) { x.block_uses[1] = {7}; }, "block 1 'layer1' uses block 7 of 3"},
      {"negative size", [](Program& x) { x.block_numel[2] = -64; }, "block 2 'layer2' has -64 elements"},
      {"an empty axis", [](Program& x) { x.mesh.dp = 0; }, "a mesh axis has 0 ranks"},
      {"a mesh whose product wraps", [](Program& x) { x.mesh = {.pp = 65536, .dp = 65536}; }, "its mesh has 2147483647 ranks"},
      {"no shards", [](Program& x) { x.shards = 0; }, "0 shards"},
      {"inner shards", [](Program& x) { x.inner_shards = 0; }, "0 inner shards"},
      {"wide elements", [](Program& x) { x.weight_bytes = 1 << 30; }, "elements of 1073741824 bytes"},
      {"holders",
       [](Program& x) {
         x.holders = {{0}, {5}, {0}};
       },
       "block 1 'layer1' is held by pipeline rank 5 of 1"},
      {"buffers",
       [](Program& x) {
         x.buffers[0].weight = {0, 1 << 30, 0};
       },
       "buffer 1073741824"},
      {"a list", [](Program& x) { x.list_of_rank[1] = -1; }, "rank 1 runs list -1, but there are 1 lists"},
      {"many micro-batches", [](Program& x) { x.micro_batches = 2'000'000'000; }, "2000000000 micro-batches of its step"},
      {"an op", [](Program& x) { x.lists[0][3].op = static_cast<Op>(200); }, "rank 0, instruction 3 (unknown): unknown op"},
      {"an unknown micro-batch", [](Program& x) { x.lists[0].back().micro = 9; }, "micro-batch 9 of 2"},
      {"unknown blocks", [](Program& x) { x.lists[0][0].last = 50; }, "blocks [0, 50) of 3"},
      {"operations", [](Program& x) { x.lists[0][1].flops = std::nan(""); }, "nan operations"},
      {"bytes", [](Program& x) { x.lists[0][1].wire_bytes = INT64_MAX; }, "9223372036854775807 bytes: must be at most"},
      {"bytes that are sent",
       [](Program& x) {
         for (Instruction& each : x.lists[0]) each.wire_bytes = kMostBytes / 2;
       },
       "the total sent exceeds"},
      {"bytes that are live",
       [](Program& x) {
         for (Instruction& each : x.lists[0]) each.allocates = kMostBytes / 2;
       },
       "bytes are live: must be at most"},
      {"elements",
       [](Program& x) {
         x.block_numel = {kMostElements, 1, 1};
       },
       "at most 4503599627370496 in total"},
      {"waits",
       [](Program& x) {
         x.lists[0].back().waits = {2, 1};
       },
       "waits for instruction 1 after 2: must be ascending"},
  };
  const Program good = build_program(toy_model(3), {.dp = 2, .micro_batches = 2});
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    Program program = good;
    c.change(program);
    const std::function<void()> takers[] = {[&] { verify(program); }, [&] { simulate(program, counted_operations()); },
                                            [&] { draw(program); }, [&] { list(program, 0); },
                                            [&] { stage_rank_of_block(program); }};
    for (const auto& take : takers) {
      try {
        take();
        ADD_FAILURE() << "taken";
      } catch (const VerifyError& error) {
        EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Fuzz, a_model_that_uses_a_block_it_does_not_have_is_refused) {
  ModelCost model = toy_model(3);
  model.blocks[1].uses = {7};
  try {
    build_program(model, {});
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("block 1 'layer1': uses block 7 of 3"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weft
