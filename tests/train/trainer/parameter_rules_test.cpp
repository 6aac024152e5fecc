// ParameterRules: other rates and decays, and frozen parameters, by name: the effect of a step on each, with the same bits in
// every layout.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/refusal.h"
#include "tests/train/jobs.h"
#include "weft/models/resnet.h"
#include "weft/optim/freeze.h"

namespace weft::parameter_rules_test {
namespace {

const ParameterRules kRules = {{.names = "h.0.*", .frozen = true},
                               {.names = "*.bias", .lr_factor = 2.0, .weight_decay = 0.1},
                               {.names = "h.1.attn.*", .lr_factor = 0.5},
                               {.names = "h.1.mlp.c_*.weight", .weight_decay = 0.3}};

std::map<std::string, at::Tensor> after(const OptimizerOptions& optimizer, const ParameterRules& rules, int steps) {
  const Trained trained = train_ranks(job("gpt"), {.learning_rate = 0.1, .parameters = rules}, 1, optimizer, steps);
  return {trained.values.begin(), trained.values.end()};
}

/// For SGD without momentum the step with one rule follows from the step without it.
TEST(ParameterRules, OneStepIsTheRules) {
  const Sgd sgd{.momentum = 0.0, .weight_decay = 0.01}, bare{.momentum = 0.0};
  const auto first = after(sgd, {}, 0), plain = after(bare, {}, 1), ruled = after(sgd, kRules, 1);
  std::map<std::string, int> seen;
  for (const auto& [name, w] : first) {
    const ParameterRule* rule = rule_of(kRules, name);
    seen[rule ? rule->names : "none"]++;
    if (rule && rule->frozen) {
      EXPECT_TRUE(at::equal(ruled.at(name), w)) << name;
      continue;
    }
    const bool decays = w.dim() > 1;
    const double factor = rule ? rule->lr_factor : 1.0, decay = rule && rule->weight_decay ? *rule->weight_decay
                                                                : decays                   ? sgd.weight_decay
                                                                                           : 0.0;
    const at::Tensor expected = w + factor * (plain.at(name) - w) - 0.1 * factor * decay * w;
    EXPECT_TRUE(at::allclose(ruled.at(name), expected, 1e-5, 1e-6)) << name;
    EXPECT_FALSE(at::equal(ruled.at(name), w)) << name;
  }
  EXPECT_EQ(seen.size(), 5U) << "every rule, and none";
}

TEST(ParameterRules, HaveTheSameBitsInEveryLayout) {
  struct Layout {
    int ranks;
    Spread spread;
    ShardLevel level;
    int pp = 1;
  };
  const Layout layouts[] = {{2, Spread::dp, ShardLevel::none},         {2, Spread::shard, ShardLevel::optimizer},
                            {4, Spread::shard, ShardLevel::gradients}, {4, Spread::hybrid, ShardLevel::parameters},
                            {2, Spread::dp, ShardLevel::none, 2},      {4, Spread::shard, ShardLevel::parameters, 2}};
  for (const OptimizerOptions& optimizer :
       std::vector<OptimizerOptions>{AdamW{}, Sgd{.weight_decay = 0.01}, Lars{.weight_decay = 0.01}, Lion{}}) {
    Strategy strategy{.micro_batch = 1, .slots = 4, .clip = 0.5, .parameters = kRules};
    const Trained one = train_ranks(job("gpt"), strategy, 1, optimizer, 3);
    for (const Layout& l : layouts) {
      strategy.spread = l.spread;
      strategy.pp = l.pp;
      strategy.layout.shard_level = l.level;
      expect_equal(train_ranks(job("gpt"), strategy, l.ranks, optimizer, 3), one, std::to_string(l.ranks) + " ranks");
    }
  }
}

/// One of weft's own layers with all weights frozen, and one with half of them.
TEST(ParameterRules, FreezePartsOfConvolutionalBlocks) {
  const Job cnn = job("cnn");
  const ParameterRules rules = {{.names = "stage1.*", .frozen = true}, {.names = "*.bias", .frozen = true}};
  for (const int ranks : {1, 2}) {
    Strategy strategy{.micro_batch = 3, .slots = 2, .parameters = rules};
    const Trained start = train_ranks(cnn, strategy, ranks, Sgd{}, 0), end = train_ranks(cnn, strategy, ranks, Sgd{}, 2);
    for (size_t i = 0; i < start.values.size(); ++i) {
      const auto& [name, value] = start.values[i];
      const bool statistic = name.find("running") != std::string::npos;
      EXPECT_EQ(at::equal(end.values[i].second, value), !statistic && rule_of(rules, name) != nullptr) << name;
    }
  }
}

TEST(ParameterRules, ThatCannotBeAreRefused) {
  const std::pair<ParameterRules, const char*> cases[] = {
      {{{.names = "layer1.*"}, {.names = "stem.*"}},
       "parameters 'stem.*' (group 2): no parameter of model 'resnet8' matches; its first is 'conv1.weight'"},
      {{{.names = "*"}, {.names = "fc.*"}},
       "parameters 'fc.*' (group 2): earlier groups match all of these parameters; move this group before them"},
      {{{.names = "*", .lr_factor = -1.0}}, "parameters '*': lr_factor = -1; must be a finite number of at least 0"},
      {{{.names = "*", .weight_decay = -0.5}}, "parameters '*': weight_decay = -0.5; must be a finite number of at least 0"},
  };
  for (const auto& [rules, says] : cases) {
    EXPECT_EQ(test::refusal([&, &r = rules] { with_rules(resnet({.depth = 8}), r); }), says);
  }
}

}  // namespace
}  // namespace weft::parameter_rules_test
