// The parity table (law 1) and same bits (law 2) for samples with several documents: every axis, level and schedule,
// recomputation and offloading. tests/models/packed_test.cpp checks that documents do not affect their neighbours.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/train/jobs.h"

namespace weft::packed_parity_test {
namespace {

constexpr int kSteps = 3;
constexpr double kRelative = 1e-5;

constexpr auto kNone = ShardLevel::none, kOptimizer = ShardLevel::optimizer, kGradients = ShardLevel::gradients,
               kParameters = ShardLevel::parameters;

/// How a step is laid out.
struct Layout {
  std::string name;
  int ranks = 1;
  int pp = 1, tp = 1;
  const char* schedule = "1f1b";
  Spread spread = Spread::dp;
  ShardLevel level = kNone;
  bool sequence_parallel = false;
  int recompute_every = 0;
  bool recompute_parts = false;
  bool offload = false;
};

std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << layout.name; }

Strategy strategy_of(const Layout& l, int slots = 0, Precision precision = Precision::fp32) {
  Strategy strategy{.name = l.name, .micro_batch = 2, .slots = slots, .clip = 0.5, .spread = l.spread, .pp = l.pp, .tp = l.tp};
  strategy.layout.pipeline.schedule = l.schedule;
  strategy.layout.shard_level = l.level;
  strategy.layout.sequence_parallel = l.sequence_parallel;
  strategy.layout.recompute_every = l.recompute_every;
  strategy.layout.recompute_parts = l.recompute_parts;
  strategy.layout.precision = precision;
  if (l.offload) {
    strategy.layout.offload_optimizer = strategy.layout.offload_activations = Offload::host;
    if (l.level == kParameters) strategy.layout.offload_parameters = Offload::host;
  }
  return strategy;
}

/// Layouts whose bits equal those of one rank.
const std::vector<Layout>& whole_layers() {
  static const std::vector<Layout> all = {
      {.name = "one"},
      {.name = "one_recompute_blocks", .recompute_every = 1},
      {.name = "one_recompute_attention", .recompute_parts = true},
      {.name = "dp2", .ranks = 2},
      {.name = "dp4_recompute_attention", .ranks = 4, .recompute_parts = true},
      {.name = "optimizer2", .ranks = 2, .spread = Spread::shard, .level = kOptimizer},
      {.name = "gradients4", .ranks = 4, .spread = Spread::shard, .level = kGradients},
      {.name = "parameters2_recompute", .ranks = 2, .spread = Spread::shard, .level = kParameters, .recompute_every = 1},
      {.name = "hybrid4", .ranks = 4, .spread = Spread::hybrid, .level = kParameters},
      {.name = "parameters2_offload",
       .ranks = 2,
       .spread = Spread::shard,
       .level = kParameters,
       .recompute_every = 1,
       .offload = true},
      {.name = "pp2_1f1b", .ranks = 2, .pp = 2},
      {.name = "pp4_zb_h1", .ranks = 4, .pp = 4, .schedule = "zb-h1"},
      {.name = "pp2_interleaved", .ranks = 2, .pp = 2, .schedule = "interleaved"},
      {.name = "pp2_zb_v_recompute", .ranks = 2, .pp = 2, .schedule = "zb-v", .recompute_every = 1},
      {.name = "pp2_offload", .ranks = 2, .pp = 2, .recompute_every = 1, .offload = true},
      {.name = "pp2_gradients2_zb_h1", .ranks = 4, .pp = 2, .schedule = "zb-h1", .spread = Spread::shard, .level = kGradients},
  };
  return all;
}

const std::vector<Layout>& split_layers() {
  static const std::vector<Layout> all = {
      {.name = "tp2", .ranks = 2, .tp = 2},
      {.name = "tp4_sequence", .ranks = 4, .tp = 4, .sequence_parallel = true},
      {.name = "tp2_sequence_recompute_attention", .ranks = 2, .tp = 2, .sequence_parallel = true, .recompute_parts = true},
      {.name = "pp2_tp2_sequence_zb_h1", .ranks = 4, .pp = 2, .tp = 2, .schedule = "zb-h1", .sequence_parallel = true},
      {.name = "parameters2_tp2", .ranks = 4, .tp = 2, .spread = Spread::shard, .level = kParameters},
  };
  return all;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all = whole_layers();
  all.insert(all.end(), split_layers().begin(), split_layers().end());
  return all;
}

class PackedParityTest : public ::testing::TestWithParam<std::tuple<Layout, std::string>> {};

/// Final state on one device, by job.
const Trained& reference(const std::string& name) {
  static std::map<std::string, Trained> known;
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const Job& trained = job(name);
  const Strategy strategy = strategy_of({.name = "reference"});
  return known
      .emplace(name, train_reference(trained.model, trained.batch_of,
                                     {.global_batch = trained.global_batch,
                                      .micro_batch = 2,
                                      .steps = kSteps,
                                      .clip = strategy.clip,
                                      .sgd = sgd_of(strategy)}))
      .first->second;
}

TEST_P(PackedParityTest, EqualsOneDevice) {
  const auto& [layout, name] = GetParam();
  const Strategy strategy = strategy_of(layout);
  expect_close(train_ranks(job(name), strategy, layout.ranks, sgd_of(strategy), kSteps), reference(name), kRelative,
               /*values=*/true);
}

INSTANTIATE_TEST_SUITE_P(Table, PackedParityTest,
                         ::testing::Combine(::testing::ValuesIn(layouts()),
                                            ::testing::Values(std::string("packed_gpt"), std::string("packed_llama"))),
                         [](const auto& info) { return std::get<0>(info.param).name + "_" + std::get<1>(info.param); });

class PackedBitsTest : public ::testing::TestWithParam<std::string> {};

void expect_same_bits(const Job& trained, Precision precision, const std::vector<Layout>& layouts) {
  constexpr int kFewSteps = 3;
  const Trained one = train_ranks(trained, strategy_of({.name = "one"}, 4, precision), 1, AdamW{}, kFewSteps);
  for (const Layout& layout : layouts) {
    expect_equal(train_ranks(trained, strategy_of(layout, 4, precision), layout.ranks, AdamW{}, kFewSteps), one, layout.name);
  }
}

TEST_P(PackedBitsTest, NoLayoutChangesThem) { expect_same_bits(job(GetParam()), Precision::fp32, whole_layers()); }

TEST_P(PackedBitsTest, NorInBf16) {
  expect_same_bits(job(GetParam()), Precision::bf16,
                   {{.name = "dp2_recompute_attention", .ranks = 2, .recompute_parts = true},
                    {.name = "parameters2", .ranks = 2, .spread = Spread::shard, .level = kParameters, .recompute_every = 1},
                    {.name = "pp2_zb_h1", .ranks = 2, .pp = 2, .schedule = "zb-h1"}});
}

INSTANTIATE_TEST_SUITE_P(Table, PackedBitsTest, ::testing::Values("packed_gpt", "packed_llama"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace weft::packed_parity_test
