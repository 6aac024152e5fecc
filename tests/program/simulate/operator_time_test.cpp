// Times of operators by their shapes, computed by hand, and of instructions as their sums.
#include "weft/program/simulate/operator_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tests/program/pipelines.h"
#include "tests/program/simulate/hardware_error.h"
#include "weft/base/error.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/simulate/work_time.h"

namespace weft::operator_time_test {
namespace {

/// Round numbers: 4 processors, 1e6 operations per second of float32 and 8e6 of narrower types, 1000 bytes per second.
Hardware device() {
  Hardware hardware{.name = "x", .kind = "cuda", .flops = 1e6, .narrow_flops = 8e6, .memory_bytes_per_s = kFree};
  hardware.operators.emplace();
  hardware.operators->products.processors = 4;
  hardware.operators->products.split_s = 1e9;  // sums are not split, unless a test says so
  return hardware;
}

OperatorWork product(int64_t m, int64_t n, int64_t k, int element_bytes = 4) {
  return {.kind = OperatorKind::product, .element_bytes = element_bytes, .rows = m, .columns = n, .inner = k};
}

OperatorWork attention(int64_t queries, int64_t keys, int64_t width, bool backward = false, bool causal = true) {
  return {.kind = OperatorKind::attention,
          .is_backward = backward,
          .is_causal = causal,
          .batch = 2,
          .rows = queries,
          .columns = keys,
          .inner = width,
          .heads = 3,
          .kv_heads = 3};
}

constexpr double kTileFlops = 2.0 * 64 * 64;  // per element of the sum

TEST(OperatorTime, AWaveOfTilesOfAnySizeTakesAsLongAsAllOfThem) {
  Hardware hardware = device();
  hardware.operators->products.tile_64x64 = 0.5;
  // Four tiles of 128 x 64 on four processors, or eight of 64 x 64 in two waves at half the rate.
  EXPECT_DOUBLE_EQ(operator_seconds(product(256, 128, 1000), hardware), 4 * 2 * kTileFlops * 1000 / 1e6);
  // A fifth one waits for a second wave, and takes as long as a full one; or only its part.
  hardware.operators->products.tile_128x64 = hardware.operators->products.tile_128x128 = 0.1;
  const double all = 2.0 * 256 * 128 * 1000 / 1e6;  // one tile of 256 x 128
  EXPECT_DOUBLE_EQ(operator_seconds(product(256 * 5, 128, 1000), hardware), 2 * 4 * all);
  hardware.operators->products.whole_waves = 0.0;
  EXPECT_DOUBLE_EQ(operator_seconds(product(256 * 5, 128, 1000), hardware), 5 * all);
  EXPECT_DOUBLE_EQ(operator_seconds(product(256 * 5, 128, 1000, 2), hardware), 5 * all / 8) << "the narrow rate";
}

TEST(OperatorTime, SmallProductsReachLess) {
  Hardware hardware = device();
  hardware.operators->products.efficiency = 0.5;
  hardware.operators->products.sustained = 0.8;
  const auto share = [&hardware](const OperatorWork& x) { return x.flops() / operator_seconds(x, hardware) / 1e6; };
  EXPECT_NEAR(share(product(2560, 1280, 4096)), 0.4, 0.01);
  EXPECT_LT(share(product(64, 64, 4096)), 0.15) << "one of four processors, or a split sum";
  hardware.operators->products.fill = 64;
  EXPECT_NEAR(share(product(2560, 1280, 64)), 0.2, 0.01) << "as long to begin and end as to sum";
  hardware.operators->products.start_s = 5.0;
  const OperatorWork x = product(2560, 1280, 64);
  const double seconds = operator_seconds(x, hardware);
  hardware.operators->products.start_s = 0.0;
  EXPECT_DOUBLE_EQ(seconds, operator_seconds(x, hardware) + 5.0);
  hardware.operators->products.unaligned = 1.5;
  EXPECT_DOUBLE_EQ(operator_seconds(product(2560, 1280, 60), hardware) / operator_seconds(product(2560, 1280, 64), hardware),
                   1.5 * (60 + 64) / (64 + 64));
}

TEST(OperatorTime, FewTilesSplitTheirSum) {
  Hardware hardware = device();
  const OperatorWork x = product(64, 64, 4096);
  const double whole = operator_seconds(x, hardware);
  hardware.operators->products.split_s = 0.5;
  EXPECT_DOUBLE_EQ(operator_seconds(x, hardware), whole / 4 + 0.5);
  hardware.memory_bytes_per_s = 1e5;
  EXPECT_DOUBLE_EQ(operator_seconds(x, hardware), whole / 4 + 0.5 + 4.0 * 64 * 64 * 4 / 1e5) << "four float32 sums";
}

TEST(OperatorTime, AProductMayBeBoundByMemory) {
  Hardware hardware = device();
  hardware.flops = 1e12;
  hardware.memory_bytes_per_s = 1e3;
  EXPECT_DOUBLE_EQ(operator_seconds(product(64, 64, 8), hardware), 4.0 * (64 * 8 + 8 * 64 + 64 * 64) / 1e3);
  OperatorWork adding = product(64, 64, 8);
  adding.adds = true;
  EXPECT_DOUBLE_EQ(operator_seconds(adding, hardware), 4.0 * (64 * 8 + 8 * 64 + 2 * 64 * 64) / 1e3) << "reads its output";
  hardware.operators->products.exposed_writes = 0.5;
  EXPECT_DOUBLE_EQ(operator_seconds(adding, hardware), 4.0 * (64 * 8 + 8 * 64 + 3 * 64 * 64) / 1e3);
}

TEST(OperatorTime, AttentionByLengthWidthAndMask) {
  Hardware hardware = device();
  hardware.operators->attention = {.forward = 0.5, .backward = 0.25, .width_64 = 0.8, .narrow = 0.4};
  const double pairs = 2.0 * 3 * 1024 * 1024;
  const auto seconds = [&hardware](const OperatorWork& x) { return operator_seconds(x, hardware); };
  EXPECT_DOUBLE_EQ(seconds(attention(1024, 1024, 128)), 2 * pairs * 128 / 0.5e6) << "half is masked";
  EXPECT_DOUBLE_EQ(seconds(attention(1024, 1024, 128, false, false)), 4 * pairs * 128 / 0.5e6);
  EXPECT_DOUBLE_EQ(seconds(attention(1024, 1024, 128, true)), 5 * pairs * 128 / 0.25e6);
  EXPECT_DOUBLE_EQ(seconds(attention(1024, 1024, 64)), 2 * pairs * 64 / 0.4e6);
  EXPECT_DOUBLE_EQ(seconds(attention(1024, 1024, 32)), 2 * pairs * 32 / 0.2e6);
  hardware.operators->attention.half_length = 1024;
  EXPECT_DOUBLE_EQ(seconds(attention(1024, 1024, 128)), 2 * pairs * 128 / 0.25e6);
  hardware.operators->attention.half_length = 0;
  hardware.operators->attention.tail = 1.5;  // of 4 processors, where 2 x 3 x 8 tiles are
  EXPECT_DOUBLE_EQ(seconds(attention(1024, 1024, 128)), 2 * pairs * 128 / 0.5e6 * (1 + 1.5 * 4 / 48));
}

TEST(OperatorTime, OthersTakeTheirBytes) {
  Hardware hardware = device();
  hardware.memory_bytes_per_s = 1000.0;
  hardware.operators->memory_bound = {.efficiency = 0.5, .start_s = 0.25};
  EXPECT_DOUBLE_EQ(operator_seconds({.bytes = 1000}, hardware), 2.25);
  EXPECT_DOUBLE_EQ(operator_times({{.bytes = 1000, .count = 3}, {.bytes = 500}}, hardware).memory_bound, 3 * 2.25 + 1.25);
}

TEST(OperatorTime, NothingTakesNoTime) {
  EXPECT_EQ(operator_seconds(product(0, 64, 64), device()), 0.0);
  EXPECT_EQ(operator_seconds(attention(0, 64, 64), device()), 0.0);
  EXPECT_EQ(operator_times({}, device()).total(), 0.0);
}

TEST(OperatorTime, OperatorsThatAreAlikeAreCounted) {
  PassOperators operators;
  for (int i = 0; i < 3; ++i) add_operator(operators, product(8, 8, 8));
  add_operator(operators, product(8, 8, 16));
  ASSERT_EQ(operators.size(), 2u);
  EXPECT_EQ(operators[0].count, 3);
  EXPECT_EQ(operators[1].count, 1);
}

constexpr int64_t kElements = 1024;  // of a block, and bytes per second

/// Two blocks with the same operators: bytes of 1, 2, ... seconds for the passes, in their order. A loss of 9 s.
Program with_operators() {
  ModelCost model = toy_model(2, kElements);
  auto operators = std::make_shared<BlockOperators>();
  for (int pass = 0; pass < kNumPasses; ++pass)
    operators->passes[static_cast<size_t>(pass)] = {{.bytes = kElements * (pass + 1)}};
  for (BlockCost& block : model.blocks) block.operators = operators;
  model.loss_operators = {{.bytes = 9 * kElements}};
  return build_program(model, {.micro_batches = 4, .slots = 2});
}

Hardware by_bytes() {
  Hardware hardware = device();
  hardware.memory_bytes_per_s = kElements;
  return hardware;
}

TEST(WorkTime, PassesTakeTheSumOfTheirOperators) {
  Program program = with_operators();
  const Hardware hardware = by_bytes();
  const auto seconds = [&](Op op, int micro) {
    return WorkTime(program, hardware).seconds({.op = op, .first = 1, .last = 2, .micro = micro, .flops = 1e9});
  };
  EXPECT_EQ(seconds(Op::forward, 3), 1.0);
  EXPECT_EQ(seconds(Op::backward, 0), 2.0);
  EXPECT_EQ(seconds(Op::backward, 1), 3.0) << "adds to the gradients of the first";
  EXPECT_EQ(seconds(Op::backward, 2), 2.0) << "a slot of its own";
  EXPECT_EQ(seconds(Op::backward_input, 1), 4.0);
  EXPECT_EQ(seconds(Op::backward_weight, 0), 5.0);
  EXPECT_EQ(seconds(Op::backward_weight, 3), 6.0);
  EXPECT_EQ(seconds(Op::loss, 3), 9.0);
  EXPECT_EQ(seconds(Op::update, -1), 28.0) << "gradient, and weights and states both ways: 28 bytes for each element";
  program.shards = 2;
  program.shard_level = ShardLevel::gradients;
  EXPECT_EQ(seconds(Op::backward, 1), 2.0) << "its gradients were reduced and taken away";
}

TEST(WorkTime, OperatorsNeedHardwareThatPricesThem) {
  Program program = with_operators();
  Hardware hardware = by_bytes();
  const Instruction forward{.op = Op::forward, .first = 0, .last = 1, .micro = 0, .flops = 3e6};
  hardware.operators.reset();
  EXPECT_EQ(WorkTime(program, hardware).seconds(forward), 4.0) << "4 bytes for each weight, more than 3 s of operations";
  hardware = by_bytes();
  hardware.blocks = {{.name = "layer0", .forward_s = 0.5}};
  EXPECT_EQ(WorkTime(program, hardware).seconds(forward), 0.5) << "measured";
  hardware.blocks.clear();
  program.operators = {};
  EXPECT_EQ(WorkTime(program, hardware).seconds(forward), 4.0) << "not counted";
}

TEST(WorkTime, AStepIsTheSumOfItsOperators) {
  // Two blocks, four micro-batches in two slots: forward, writing and adding backwards; the loss; sums of slots; update.
  const double once = 2 * 1.0 + 9.0;
  Hardware hardware = by_bytes();
  hardware.operators->memory_bound.start_s = 0.5;
  const Program program = with_operators();
  const double combines =
      simulate(program, hardware).step_s - (4 * (once + 3 * 0.5) + 2 * 2 * (2.0 + 3.0 + 2 * 0.5)) - 2 * (28.0 + 0.5);
  EXPECT_NEAR(combines, 2 * 2 * (12.0 + 0.5), 1e-9) << "each slot of each block: 12 bytes per element";
}

std::string error_of(const OperatorCosts& costs, const std::string& kind = "cuda") {
  return test::error_of(Hardware{.name = "x", .kind = kind, .operators = costs});
}

TEST(OperatorCosts, NumbersThatMakeNoSenseAreRefused) {
  EXPECT_EQ(error_of({}), "no error");
  EXPECT_EQ(error_of({.products = {.processors = 0.0}}),
            "hardware 'x': products.processors is 0, must be at least 1 and at most 1000000");
  EXPECT_EQ(error_of({.products = {.efficiency = 1.5}}),
            "hardware 'x': products.efficiency is 1.5, must be above 0 and at most 1");
  EXPECT_EQ(error_of({.attention = {.backward = 0.0}}), "hardware 'x': attention.backward is 0, must be above 0 and at most 1");
  EXPECT_EQ(error_of({.memory_bound = {.start_s = std::nan("")}}),
            "hardware 'x': memory_bound.start_s is nan, must be at least 0 and at most 1000000000");
  EXPECT_EQ(error_of({}, "cpu"),
            "hardware 'x': costs of operators are for devices whose launches are counted: add kind = \"cuda\" to [device]");
}

}  // namespace
}  // namespace weft::operator_time_test
