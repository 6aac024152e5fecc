// The parity table (law 1) of splits inside the layer: tensor, sequence and context parallelism, by themselves and mixed with
// all other axes; and that the other axes add no difference to theirs (law 2).
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/train/jobs.h"

namespace weft::split_parity_test {
namespace {

constexpr int kSteps = 3;
constexpr double kRelative = 1e-5;

/// How a step is split.
struct Split {
  std::string name;
  int ranks = 1;
  int pp = 1, cp = 1, tp = 1;
  Spread spread = Spread::dp;
  ShardLevel level = ShardLevel::none;
  bool sequence_parallel = false;
  ContextMethod attention = ContextMethod::automatic;
  const char* schedule = "1f1b";
  bool recompute = false;
  int chunks = 1;
  bool offload = false;  ///< all that can be
};

std::ostream& operator<<(std::ostream& out, const Split& split) { return out << split.name; }

Strategy strategy_of(const Split& s, int slots = 0) {
  Strategy strategy{
      .name = s.name, .micro_batch = 2, .slots = slots, .clip = 0.05, .spread = s.spread, .pp = s.pp, .cp = s.cp, .tp = s.tp};
  strategy.layout.pipeline.schedule = s.schedule;
  strategy.layout.shard_level = s.level;
  strategy.layout.sequence_parallel = s.sequence_parallel;
  strategy.layout.attention_over = s.attention;
  strategy.layout.tp_chunks = s.chunks;
  strategy.layout.recompute_every = s.recompute ? 1 : 0;
  strategy.layout.recompute_parts = false;
  if (s.offload) {
    strategy.layout.offload_optimizer = strategy.layout.offload_activations = Offload::host;
    if (s.level == ShardLevel::parameters) strategy.layout.offload_parameters = Offload::host;
  }
  return strategy;
}

constexpr auto kRing = ContextMethod::ring, kAllToAll = ContextMethod::all_to_all;
constexpr auto kShard = Spread::shard;
constexpr auto kOptimizer = ShardLevel::optimizer, kGradients = ShardLevel::gradients, kParameters = ShardLevel::parameters;

const std::vector<Split>& splits() {
  static const std::vector<Split> all = {
      {.name = "tp2", .ranks = 2, .tp = 2},
      {.name = "tp4", .ranks = 4, .tp = 4},
      {.name = "tp2_sequence", .ranks = 2, .tp = 2, .sequence_parallel = true},
      {.name = "tp2_chunks", .ranks = 2, .tp = 2, .chunks = 3},
      {.name = "tp2_sequence_chunks_zb_h1",
       .ranks = 4,
       .pp = 2,
       .tp = 2,
       .sequence_parallel = true,
       .schedule = "zb-h1",
       .chunks = 2},
      {.name = "tp4_sequence_recompute", .ranks = 4, .tp = 4, .sequence_parallel = true, .recompute = true},
      {.name = "cp2_ring", .ranks = 2, .cp = 2, .attention = kRing},
      {.name = "cp4_ring", .ranks = 4, .cp = 4, .attention = kRing},
      {.name = "cp2_all_to_all", .ranks = 2, .cp = 2, .attention = kAllToAll},
      {.name = "cp4_all_to_all", .ranks = 4, .cp = 4, .attention = kAllToAll},
      {.name = "dp2_tp2", .ranks = 4, .tp = 2},
      {.name = "optimizer2_tp2", .ranks = 4, .tp = 2, .spread = kShard, .level = kOptimizer},
      {.name = "gradients2_tp2", .ranks = 4, .tp = 2, .spread = kShard, .level = kGradients},
      {.name = "parameters2_tp2_sequence",
       .ranks = 4,
       .tp = 2,
       .spread = kShard,
       .level = kParameters,
       .sequence_parallel = true,
       .recompute = true},
      {.name = "pp2_dp2_tp2_1f1b", .ranks = 8, .pp = 2, .tp = 2},
      {.name = "pp2_dp2_tp2_zb_h1", .ranks = 8, .pp = 2, .tp = 2, .sequence_parallel = true, .schedule = "zb-h1"},
      {.name = "pp2_dp2_tp2_interleaved", .ranks = 8, .pp = 2, .tp = 2, .schedule = "interleaved"},
      {.name = "pp2_parameters2_tp2", .ranks = 8, .pp = 2, .tp = 2, .spread = kShard, .level = kParameters},
      {.name = "pp2_dp2_cp2", .ranks = 8, .pp = 2, .cp = 2, .attention = kRing},
      {.name = "pp2_gradients2_cp2",
       .ranks = 8,
       .pp = 2,
       .cp = 2,
       .spread = kShard,
       .level = kGradients,
       .attention = kAllToAll},
      {.name = "pp2_dp2_shard2_cp2",
       .ranks = 16,
       .pp = 2,
       .cp = 2,
       .spread = Spread::hybrid,
       .level = kParameters,
       .attention = kRing},
      {.name = "cp2_tp2_sequence", .ranks = 4, .cp = 2, .tp = 2, .sequence_parallel = true, .attention = kRing},
      {.name = "dp2_cp2_tp2", .ranks = 8, .cp = 2, .tp = 2, .attention = kAllToAll},
  };
  return all;
}

class SplitParityTest : public ::testing::TestWithParam<std::tuple<Split, std::string>> {};

/// Final state on one device, by job, for each kind of `train`: every split of a job is compared with it.
template <class Train>
const Trained& once(const std::string& name, const Train& train) {
  static std::map<std::string, Trained> known;
  const auto found = known.find(name);
  return found == known.end() ? known.emplace(name, train()).first->second : found->second;
}

TEST_P(SplitParityTest, EqualsOneDevice) {
  const auto& [split, name] = GetParam();
  const Job& trained = job(name);
  const Strategy strategy = strategy_of(split);
  const Trained& expected = once(name, [&] {
    return train_reference(trained.model, trained.batch_of,
                           {.global_batch = trained.global_batch,
                            .micro_batch = 2,
                            .steps = kSteps,
                            .clip = strategy.clip,
                            .sgd = sgd_of(strategy)});
  });
  expect_close(train_ranks(trained, strategy, split.ranks, sgd_of(strategy), kSteps), expected, kRelative, /*values=*/true);
}

/// Adam divides by the root of the squares: where a gradient is nothing but rounding, its weights go where that points. So
/// losses and gradient norms are compared; the gradients themselves show in the weights under SGD.
TEST_P(SplitParityTest, EqualsOneDeviceUnderAdamW) {
  const auto& [split, name] = GetParam();
  const Job& trained = job(name);
  Strategy strategy = strategy_of(split), alone = strategy_of({.name = "alone"});
  strategy.learning_rate = alone.learning_rate = 1e-3;
  const OptimizerOptions adamw = AdamW{};
  const Trained& expected = once(name, [&] { return train_ranks(trained, alone, 1, adamw, kSteps); });
  expect_close(train_ranks(trained, strategy, split.ranks, adamw, kSteps), expected, kRelative, /*values=*/false);
}

INSTANTIATE_TEST_SUITE_P(Table, SplitParityTest,
                         ::testing::Combine(::testing::ValuesIn(splits()),
                                            ::testing::Values(std::string("split_gpt"), std::string("split_llama"))),
                         [](const auto& info) { return std::get<0>(info.param).name + "_" + std::get<1>(info.param); });

/// With tp fixed at 2, the weights have the bits of tp 2 alone for any other choices.
TEST(SplitBits, OtherAxesAddNoDifference) {
  const Split alone{.name = "tp2", .ranks = 2, .tp = 2};
  const std::vector<Split> others = {
      {.name = "dp2", .ranks = 4, .tp = 2},
      {.name = "optimizer2", .ranks = 4, .tp = 2, .spread = kShard, .level = kOptimizer},
      {.name = "parameters2", .ranks = 4, .tp = 2, .spread = kShard, .level = kParameters, .recompute = true},
      {.name = "gradients2 offload",
       .ranks = 4,
       .tp = 2,
       .spread = kShard,
       .level = kGradients,
       .recompute = true,
       .offload = true},
      {.name = "dp2 parameters2 offload",
       .ranks = 8,
       .tp = 2,
       .spread = Spread::hybrid,
       .level = kParameters,
       .recompute = true,
       .offload = true},
      {.name = "pp2", .ranks = 4, .pp = 2, .tp = 2},
      {.name = "pp2 zb-h1 dp2", .ranks = 8, .pp = 2, .tp = 2, .schedule = "zb-h1"},
  };
  for (const OptimizerOptions& optimizer : std::vector<OptimizerOptions>{AdamW{}, Sgd{}}) {
    const Trained expected = train_ranks(job("split_gpt"), strategy_of(alone, 4), alone.ranks, optimizer, kSteps);
    for (const Split& other : others) {
      expect_equal(train_ranks(job("split_gpt"), strategy_of(other, 4), other.ranks, optimizer, kSteps), expected, other.name);
    }
  }
}

}  // namespace
}  // namespace weft::split_parity_test
