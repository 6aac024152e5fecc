// Passes as other software runs them: what of weft's operators stays, and what its host and optimizer take.
#include "weft/program/simulate/software.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/program/pipelines.h"
#include "tests/program/simulate/hardware_error.h"
#include "weft/base/error.h"
#include "weft/program/simulate/work_time.h"

namespace weft::software_test {
namespace {

using test::error_of;

constexpr int64_t kElements = 1024;

OperatorWork memory(MemoryClass of, int64_t bytes, bool is_backward = false) {
  return {.kind = OperatorKind::memory, .of = of, .is_backward = is_backward, .bytes = bytes, .elements = kElements};
}

const OperatorWork kProduct = {.kind = OperatorKind::product, .rows = 64, .columns = 64, .inner = 64};

OperatorWork attention(bool is_backward) {
  return {.kind = OperatorKind::attention,
          .is_backward = is_backward,
          .is_causal = true,
          .element_bytes = 2,
          .batch = 2,
          .rows = 32,
          .columns = 64,
          .inner = 16,
          .heads = 3,
          .kv_heads = 1};
}

SoftwareCosts software() {
  return {.name = "other",
          .norm_bytes = 1,
          .norm_backward_bytes = 2,
          .activation_bytes = 3,
          .activation_backward_bytes = 4,
          .rotary_bytes = 5,
          .loss_bytes = 6};
}

TEST(Software, HasItsOwnBytesPerElement) {
  SoftwareCosts costs = software();
  const auto bytes = [&costs](const OperatorWork& x) {
    const PassOperators all = run_by(costs, {x});
    return all.empty() ? -1 : all.front().bytes;
  };
  for (const int64_t factor : {1, 2}) {
    costs.traffic_factor = static_cast<double>(factor);
    EXPECT_EQ(bytes(memory(MemoryClass::norm, 99)), factor * 1 * kElements);
    EXPECT_EQ(bytes(memory(MemoryClass::norm, 99, true)), factor * 2 * kElements);
    EXPECT_EQ(bytes(memory(MemoryClass::activation, 99)), factor * 3 * kElements);
    EXPECT_EQ(bytes(memory(MemoryClass::activation, 99, true)), factor * 4 * kElements);
    EXPECT_EQ(bytes(memory(MemoryClass::rotary, 99)), factor * 5 * kElements);
    EXPECT_EQ(bytes(memory(MemoryClass::loss, 99)), factor * 3 * kElements) << "half each in forward and backward";
    EXPECT_EQ(bytes(memory(MemoryClass::embedding, 99)), 99) << "as weft's";
    EXPECT_EQ(bytes(memory(MemoryClass::other, 99)), -1) << "not run";
  }
  EXPECT_EQ(run_by(costs, {kProduct, attention(false)}), (PassOperators{kProduct, attention(false)}));
}

TEST(Software, AttentionThatIsNotFusedIsProductsAndASoftmax) {
  SoftwareCosts costs = software();
  costs.fused_attention = false;
  const auto product = [](int64_t rows, int64_t columns, int64_t inner, int count) {
    return OperatorWork{.kind = OperatorKind::product,
                        .element_bytes = 2,
                        .batch = 6,
                        .rows = rows,
                        .columns = columns,
                        .inner = inner,
                        .count = count};
  };
  const PassOperators forward = run_by(costs, {attention(false)});
  ASSERT_EQ(forward.size(), 3u);
  EXPECT_EQ(forward[0], product(32, 64, 16, 1)) << "scores";
  EXPECT_EQ(forward[1], product(32, 16, 64, 1)) << "values";
  EXPECT_EQ(forward[2].bytes, 9 * 6 * 32 * 64);
  const PassOperators backward = run_by(costs, {attention(true)});
  ASSERT_EQ(backward.size(), 4u);
  EXPECT_EQ(backward[0], product(32, 64, 16, 1)) << "gradient of the scores";
  EXPECT_EQ(backward[1], product(32, 16, 64, 1)) << "of the queries";
  EXPECT_EQ(backward[2], product(64, 16, 32, 2)) << "of keys and values";
  EXPECT_EQ(backward[3].bytes, 13 * 6 * 32 * 64);
  OperatorWork longer = attention(false);
  longer.columns = 4096;
  EXPECT_EQ(run_by(costs, {longer})[2].bytes, 23 * 6 * 32 * 4096) << "in several kernels";
  costs.fused_softmax = false;
  EXPECT_EQ(run_by(costs, {attention(false)})[2].bytes, 23 * 6 * 32 * 64);
}

/// Bytes take a second each 1024; products and attention take no time.
Hardware hardware_with(const SoftwareCosts& costs) {
  Hardware hardware{.name = "x", .kind = "cuda", .flops = kFree, .narrow_flops = kFree, .memory_bytes_per_s = kElements};
  hardware.operators.emplace();
  hardware.software = costs;
  return hardware;
}

TEST(Software, ALayerRepeatsForwardAndWaitsForItsHost) {
  BlockOperators layer;
  layer.of(BlockPass::forward) = {attention(false), memory(MemoryClass::norm, 99), memory(MemoryClass::other, 99)};
  layer.of(BlockPass::backward) = {attention(true), memory(MemoryClass::norm, 99, true)};
  SoftwareCosts costs = software();
  const auto seconds = [&](BlockPass pass) {
    return software_times(layer, hardware_with(costs))[static_cast<size_t>(pass)].total();
  };
  EXPECT_DOUBLE_EQ(seconds(BlockPass::forward), 1.0);
  EXPECT_DOUBLE_EQ(seconds(BlockPass::backward), 2.0);
  costs.repeated_memory_bound = 0.5;
  EXPECT_DOUBLE_EQ(seconds(BlockPass::backward), 2.5);
  costs.block_launch_s = 2.0;
  EXPECT_DOUBLE_EQ(seconds(BlockPass::forward), 2.0);
  EXPECT_DOUBLE_EQ(seconds(BlockPass::backward), 4.0);
  costs.block_s = 0.25;
  EXPECT_DOUBLE_EQ(seconds(BlockPass::forward), 2.25);
  layer.of(BlockPass::forward).erase(layer.of(BlockPass::forward).begin());
  EXPECT_DOUBLE_EQ(seconds(BlockPass::forward), 1.0) << "not of a layer";
  EXPECT_DOUBLE_EQ(seconds(BlockPass::backward), 2.0);
}

TEST(Software, RepeatedAttentionCountsItsProductsAndSoftmax) {
  BlockOperators layer;
  layer.of(BlockPass::forward) = {attention(false)};
  SoftwareCosts costs = software();
  costs.fused_attention = false;
  costs.repeated_attention = 1.0;
  const auto times = software_times(layer, hardware_with(costs));
  EXPECT_GT(times[0].attention, 0.0);
  EXPECT_EQ(times[0].memory_bound, 0.0);
  EXPECT_DOUBLE_EQ(times[static_cast<size_t>(BlockPass::backward)].total(), times[0].total());
}

TEST(Software, ItsLossUpdateAndSumsOfGradients) {
  ModelCost model = toy_model(1, kElements);
  auto operators = std::make_shared<BlockOperators>();
  operators->of(BlockPass::backward) = {memory(MemoryClass::norm, 99, true)};
  model.blocks[0].operators = operators;
  model.loss_operators = {memory(MemoryClass::loss, 99), memory(MemoryClass::other, 99)};
  const Program program = build_program(model, {});
  SoftwareCosts costs = software();
  costs.accumulate_bytes = 7.0;
  costs.update_bytes = 8.0;
  const Hardware hardware = hardware_with(costs);
  const WorkTime work(program, hardware);
  EXPECT_EQ(work.seconds({.op = Op::loss, .micro = 0}), 6.0) << "per logit";
  EXPECT_EQ(work.seconds({.op = Op::backward, .first = 0, .last = 1, .micro = 0}), 2.0 + 7.0);
  EXPECT_EQ(work.seconds({.op = Op::update, .first = 0, .last = 1}), 8.0);
}

TEST(Software, WhatOverlapsComputing) {
  SoftwareCosts costs = software();
  const auto overlaps = [&costs](Op op, ShardLevel level = ShardLevel::optimizer) {
    return software_overlaps(costs, {.op = op}, level);
  };
  EXPECT_FALSE(overlaps(Op::send));
  EXPECT_TRUE(overlaps(Op::receive)) << "the receiver waits for the message";
  EXPECT_TRUE(overlaps(Op::reduce_scatter));
  costs.exposed_messages = 0.0;
  costs.overlapped_gradients = false;
  EXPECT_TRUE(overlaps(Op::send));
  EXPECT_FALSE(overlaps(Op::reduce_scatter));
  EXPECT_FALSE(overlaps(Op::gather));
  EXPECT_TRUE(overlaps(Op::gather, ShardLevel::parameters));
}

TEST(Software, NumbersThatMakeNoSenseAreRefused) {
  Hardware hardware = hardware_with(software());
  EXPECT_EQ(error_of(hardware), "no error");
  hardware.host_launch_s = 1e-6;
  EXPECT_EQ(error_of(hardware), "hardware 'x': host_launch_s is for weft's own launches: remove it beside [software]");
  hardware.host_launch_s.reset();
  hardware.software->traffic_factor = 0.5;
  EXPECT_EQ(error_of(hardware), "hardware 'x': software.traffic_factor is 0.5, must be at least 1 and at most 1000");
  for (double SoftwareCosts::*number :
       {&SoftwareCosts::calls_per_block, &SoftwareCosts::gradient_traffic, &SoftwareCosts::hidden_gathers}) {
    hardware.software = software();
    (*hardware.software).*number = number == &SoftwareCosts::hidden_gathers ? 0.5 : 2.0;
    EXPECT_THAT(error_of(hardware), testing::HasSubstr("need [collectives]"));
  }
  hardware.software = software();
  hardware.operators.reset();
  EXPECT_EQ(error_of(hardware), "hardware 'x': [software] needs [products], [attention] and [memory_bound]");
}

}  // namespace
}  // namespace weft::software_test
