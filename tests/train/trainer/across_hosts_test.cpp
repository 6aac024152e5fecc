// layout.across_hosts = "bf16" rounds sums of gradients between hosts and nothing else: what tp and cp add up is exact.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"
#include "weft/models/gpt.h"
#include "weft/train/trainer/trainer.h"

namespace weft::across_hosts_test {
namespace {

constexpr int64_t kTokens = 64, kSamples = 4;

/// Losses of the first steps on two ranks, each on its own host.
std::vector<double> losses(const std::string& axis, const LayoutOptions& layout, AcrossHosts across) {
  std::vector<double> result;
  const auto on_rank = [&](World world) {
    const Mesh mesh(world, {{axis, 2}});
    const int64_t share = axis == "dp" || axis == "shard" ? kSamples / 2 : kSamples;
    Trainer trainer(
        mesh, gpt({.layers = 1, .heads = 2, .width = 64, .context = kTokens, .vocabulary = 64}), Sgd{.lr = 0.1},
        {.global_batch = kSamples, .micro_batch = share, .layout = layout, .communication = {.across_hosts = across}});
    const int64_t first = share == kSamples ? 0 : share * world.rank();
    const at::Tensor ids = at::arange(kSamples * kTokens, at::kLong).mul(7).remainder(64).view({kSamples, kTokens});
    const Batch batch{.inputs = {ids.narrow(0, first, share)}, .target = ids.narrow(0, first, share)};
    std::vector<double> own;
    for (int step = 0; step < 2; ++step) own.push_back(trainer.step(batch).loss);
    if (world.rank() == 0) result = own;
  };
  test::run_ranks(2, on_rank, {.hosts = {"a", "b"}});
  return result;
}

TEST(AcrossHostsTraining, OnlySumsOfGradientsAreRounded) {
  LayoutOptions sequence, ring, shards;
  sequence.sequence_parallel = true;
  ring.attention_over = ContextMethod::ring;
  shards.shard_level = ShardLevel::gradients;
  const struct {
    std::string axis;
    LayoutOptions layout;
    bool rounds;
  } table[] = {{"tp", {}, false}, {"tp", sequence, false}, {"dp", {}, true}, {"shard", shards, true}, {"cp", ring, true}};
  for (const auto& row : table) {
    SCOPED_TRACE(row.axis + (row.layout.sequence_parallel ? " in parts" : ""));
    const std::vector<double> exact = losses(row.axis, row.layout, AcrossHosts::exact);
    const std::vector<double> narrow = losses(row.axis, row.layout, AcrossHosts::bf16);
    EXPECT_EQ(exact.front(), narrow.front()) << "no gradient is in the first loss";
    EXPECT_EQ(exact == narrow, !row.rounds);
    EXPECT_NEAR(exact.back(), narrow.back(), 1e-3 * exact.back());
  }
}

}  // namespace
}  // namespace weft::across_hosts_test
