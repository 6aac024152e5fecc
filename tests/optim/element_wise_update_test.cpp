// Custom optimizers: their descriptions, and refusals before any weight is changed. optimizer_test.cpp checks their formula,
// sharded_test.cpp that shards have the bits of the whole.
#include "weft/optim/element_wise_update.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/nn/bound_layer.h"
#include "tests/optim/custom_lion.h"
#include "tests/support/refusal.h"
#include "weft/optim/make_optimizer.h"
#include "weft/optim/state_meaning.h"

namespace weft::element_wise_update_test {
namespace {

class Update : public ElementWiseUpdate {
 public:
  std::string called = "own";
  std::vector<std::string> states = {};
  std::function<void(const ElementRange& range)> call = [](const ElementRange& range) { range.weights.sub_(range.gradients); };

  std::string name() const override { return called; }
  std::vector<std::string> state_names() const override { return states; }
  void update(const ElementRange& range) const override { call(range); }
};

/// The error of making an optimizer from the update.
std::string refused(const std::function<void(Update&)>& change) {
  Parameter weight{at::randn({70}), {}};
  FlatModel flat = bind_block(std::make_shared<FunctionBlock>([](const Tensors& in, const Context&) { return in; },
                                                              std::vector<ParamSpec>{{"weight", &weight, {}}}));
  const auto update = std::make_shared<Update>();
  change(*update);
  return test::refusal([&] { make_optimizer(flat, CustomOptimizer{.lr = 0.1, .update = update}); });
}

TEST(ElementWiseUpdate, WhatCannotTrainIsRefused) {
  const auto states = [](std::vector<std::string> names) { return [names](Update& u) { u.states = names; }; };
  const auto calls = [](const std::function<void(const ElementRange&)>& call) { return [call](Update& u) { u.call = call; }; };
  EXPECT_EQ(test::refusal([] { check_optimizer(CustomOptimizer{.lr = 0.1}); }),
            "optimizer: CustomOptimizer::update is null; give it an ElementWiseUpdate");
  EXPECT_EQ(refused([](Update& u) { u.called = ""; }),
            "optimizer: an ElementWiseUpdate has the name ''; it must be one line, and not empty");
  for (const char* name : {"ema", "step", "model", "a/b", ""}) {
    EXPECT_EQ(refused(states({"mean", name})),
              fmt::format("optimizer own: state '{}' cannot be a name in checkpoints; use another, without '/'", name));
  }
  EXPECT_EQ(refused(states({"mean", "mean"})), "optimizer own: state 'mean' is named twice; use different names");
  const std::string others =
      "optimizer own: 64 elements get different values when updated alone than as a part of 128; an update must be "
      "element-wise and deterministic";
  EXPECT_EQ(refused(calls([](const ElementRange& p) { p.weights.sub_(p.gradients.div(p.gradients.norm())); })), others);
  EXPECT_EQ(refused(calls([](const ElementRange& p) { p.weights.add_(at::randn(p.weights.sizes())); })), others);
  int calls_so_far = 0;
  EXPECT_EQ(refused(calls([&](const ElementRange& p) { p.weights.sub_(p.gradients, ++calls_so_far); })), others);
  EXPECT_EQ(refused([&](Update& u) {
              u.states = {"mean"};
              u.call = [](const ElementRange& p) { p.state[0].add_(p.gradients.mean()); };
            }),
            others);
  EXPECT_EQ(test::refusal([] { check_optimizer(CustomOptimizer{.lr = -1.0, .update = std::make_shared<Update>()}); }),
            "optimizer.lr is -1; it must be at least 0");
}

TEST(ElementWiseUpdate, TellsWhatItKeepsAndWhoseItIs) {
  const OptimizerOptions options = test::custom_lion(0.1);
  EXPECT_EQ(optimizer_text(options), "own lion, betas 0.9 and 0.99, weight decay 0.1");
  EXPECT_EQ(state_names(options), std::vector<std::string>{"mean"});
  EXPECT_EQ(num_states(options), 1);
  EXPECT_EQ(state_meanings(options), (std::map<std::string, std::string>{{"mean", "'mean' of own lion"}}));
  EXPECT_FALSE(needs_tensor_norms(options) || needs_whole_tensors(options));
}

}  // namespace
}  // namespace weft::element_wise_update_test
