// Traffic between hosts, by the formulas of two levels.
#include "weft/program/host_traffic.h"

#include <gtest/gtest.h>

#include "tests/program/pipeline/schedule_table.h"
#include "tests/program/pipelines.h"
#include "tests/program/split_model.h"
#include "tests/program/toy.h"
#include "weft/base/error.h"
#include "weft/program/build/build.h"
#include "weft/program/cost.h"
#include "weft/program/draw/draw.h"

namespace weft::host_traffic_test {
namespace {

constexpr int64_t kNumel = 4096, kBlocks = 3, kWhole = kNumel * kBlocks * 4;  // bytes of all gradients, and of all weights

TEST(HostTraffic, OfDataParallelAndShards) {
  struct Row {
    StepLayout layout;
    int ranks_per_host;
    std::vector<double> gradients, weights;  ///< by host, in kWhole
  };
  const auto shards = [](int dp, int shard, ShardLevel level) {
    return StepLayout{.dp = dp, .shard = shard, .shard_level = level};
  };
  const Row rows[] = {
      {{.dp = 4}, 4, {0}, {0}},
      {{.dp = 4}, 2, {1, 1}, {0, 0}},
      {{.dp = 4}, 1, {1.5, 1.5, 1.5, 1.5}, {0, 0, 0, 0}},
      {{.dp = 4}, 3, {1, 1}, {0, 0}},
      {shards(1, 4, ShardLevel::parameters), 2, {0.5, 0.5}, {5.0 / 6, 5.0 / 6}},  // 5 gathers: the last block keeps its weights
      {shards(1, 4, ShardLevel::parameters), 3, {0.25, 0.75}, {1.25, 5.0 / 12}},
      {shards(2, 2, ShardLevel::parameters), 2, {1, 1}, {0, 0}},  // both shards of a host, each all-reduced
      {shards(2, 2, ShardLevel::parameters), 4, {0}, {0}},
  };
  for (const Row& row : rows) {
    const Program program = build_program(toy_model(kBlocks, kNumel), row.layout);
    const std::vector<HostTraffic> hosts = host_traffic(program, row.ranks_per_host);
    ASSERT_EQ(hosts.size(), row.gradients.size());
    for (size_t host = 0; host < hosts.size(); ++host) {
      SCOPED_TRACE(
          fmt::format("dp {} shard {}, {} per host, host {}", row.layout.dp, row.layout.shard, row.ranks_per_host, host));
      EXPECT_NEAR(static_cast<double>(hosts[host].gradients), row.gradients[host] * kWhole, 10.0);
      EXPECT_NEAR(static_cast<double>(hosts[host].weights), row.weights[host] * kWhole, 10.0);
      EXPECT_EQ(hosts[host].total(), hosts[host].gradients + hosts[host].weights + hosts[host].losses);
    }
  }
}

TEST(HostTraffic, OfSumsInBfloat16) {
  const StepLayout shards{.dp = 1, .shard = 4, .shard_level = ShardLevel::parameters};
  for (const StepLayout& layout : {StepLayout{.dp = 4}, shards}) {
    const Program program = build_program(toy_model(kBlocks, 2 * kNumel), layout);  // smaller sums cross unchanged
    const HostTraffic exact = host_traffic(program, 2)[0], narrow = host_traffic(program, 2, true)[0];
    EXPECT_NEAR(static_cast<double>(narrow.gradients), 0.5 * static_cast<double>(exact.gradients), 10.0);
    EXPECT_EQ(narrow.weights, exact.weights);
    EXPECT_EQ(narrow.losses, exact.losses);
  }
  const Program split = build_program(split_model(splittable(toy_model(3, 2 * kNumel)), 1, 2), {.tp = 2, .micro_batches = 2});
  EXPECT_EQ(host_traffic(split, 1, true)[0].inner, host_traffic(split, 1)[0].inner) << "sums of activations cross as they are";
}

// With a pipeline's stages on two hosts, messages between ranks cross; inside a host nothing does.
TEST(HostTraffic, OfPipelinesAndSplitLayers) {
  const Program stages = build_program(toy_model(8), pipelined({}, schedule_named("1f1b"), 2, 4));
  const std::vector<HostTraffic> apart = host_traffic(stages, 1);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(apart[rank].transfers, step_cost(stages.of(rank)).transfer_wire_bytes);
    EXPECT_GT(apart[rank].transfers, 0);
  }
  EXPECT_EQ(host_traffic(stages, 2)[0].total(), 0);
  const Program split = build_program(split_model(splittable(toy_model(3)), 1, 2), {.tp = 2, .dp = 2, .micro_batches = 2});
  EXPECT_EQ(most_traffic(host_traffic(split, 2)).inner, 0);
  EXPECT_EQ(most_traffic(host_traffic(split, 1)).inner, step_cost(split.of(0)).inner_wire_bytes);
  EXPECT_THROW(host_traffic(split, 0), InputError);
}

TEST(HostTraffic, IsShownByDraw) {
  const Program program = build_program(toy_model(kBlocks, kNumel), {.dp = 4});
  const std::string text = draw(program, {.ranks_per_host = 2});
  EXPECT_NE(text.find("2 hosts of 2 ranks each: per step a host sends the others 48"), std::string::npos) << text;
  EXPECT_EQ(draw(program).find("hosts"), std::string::npos);
  EXPECT_EQ(draw(program, {.ranks_per_host = 4}), draw(program));
}

}  // namespace
}  // namespace weft::host_traffic_test
