// Undeclared inputs of a custom block: a parameter missing from its parameters(), a constant that it changes.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <utility>

#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "weft/nn/functional/recompute.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::undeclared_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kWidth = 6;

struct Layers {
  Linear declared{kWidth, kWidth}, linear{kWidth, kWidth};
  LayerNorm norm{kWidth};
  Embedding embedding{3, kWidth, 1.0};
  Parameter scale = meta_parameter({kWidth});
  torch::nn::Linear module{kWidth, kWidth};
  at::Tensor leaf = at::ones({kWidth}).requires_grad_(), constant = at::ones({kWidth}), counter = at::zeros({});
};

using Forward = std::function<at::Tensor(Layers&, const at::Tensor&)>;

/// Declares one of its layers, and a constant.
class Own : public Block {
 public:
  explicit Own(Forward forward) : forward_(std::move(forward)) {}
  Tensors forward(const Tensors& inputs, const Context&) override {
    return {forward_(layers_, layers_.declared(inputs.front()))};
  }
  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    layers_.declared.describe(specs, "declared");
    return specs;
  }
  std::vector<BufferSpec> buffers() override { return {{.name = "counter", .value = layers_.counter}}; }

 private:
  Forward forward_;
  Layers layers_;
};

LossValue squares(const Tensors& outputs, const at::Tensor& target) {
  return {outputs.front().sub(target).square().sum(), target.numel()};
}

/// The error of a step or an evaluation.
std::string refused(const Forward& forward, bool evaluates) {
  Model model{.name = "net", .blocks = {}, .loss = squares};
  for (const char* name : {"a", "b"}) model.blocks.push_back({name, name, std::make_shared<Own>(forward)});
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model, Sgd{}, {.global_batch = kBatch, .micro_batch = kBatch});
  const Batch batch{{at::ones({kBatch, kWidth})}, at::zeros({kBatch, kWidth}), 0};
  struct Samples : Dataset {
    int64_t size() const override { return kBatch; }
    Batch get(const std::vector<int64_t>& indices, int64_t) const override {
      const auto count = static_cast<int64_t>(indices.size());
      return {{at::ones({count, kWidth})}, at::zeros({count, kWidth}), 0};
    }
  };
  EvaluationLoader loader(std::make_shared<Samples>(), kBatch, 0, 1);
  return test::refusal([&] {
    if (evaluates) trainer.evaluate(loader);
    if (!evaluates) trainer.step(batch);
  });
}

TEST(Undeclared, ParametersAreNamedWithTheirBlock) {
  struct Row {
    Forward forward;
    std::string what;  ///< empty: it is right
  };
  const Row rows[] = {
      {[](Layers& l, const at::Tensor& x) { return l.linear(x); }, "linear layer: weight is Float [6, 6] on meta"},
      {[](Layers& l, const at::Tensor& x) { return l.norm(x); }, "norm: weight is Float [6] on meta"},
      {[](Layers& l, const at::Tensor& x) { return x.mul(l.scale.value); }, "Float [6], 'other' of aten::mul"},
      {[](Layers& l, const at::Tensor& x) { return l.module->forward(x); }, "Float [6, 6], 'self' of aten::t"},
      {[](Layers& l, const at::Tensor& x) { return x.mul(l.leaf); }, "Float [6], 'other' of aten::mul"},
      {[](Layers& l, const at::Tensor& x) { return x.mul(l.constant); }, ""},
      {[](Layers&, const at::Tensor& x) { return recompute([](const at::Tensor& y) { return y.tanh(); }, x); }, ""},
      {[](Layers&, const at::Tensor& x) { return x.detach().requires_grad_().mul(x); }, ""}};
  for (const Row& row : rows) {
    for (const bool evaluates : {false, true}) {
      const std::string error = refused(row.forward, evaluates);
      if (row.what.empty()) {
        EXPECT_EQ(error, "");
        continue;
      }
      EXPECT_THAT(error,
                  HasSubstr("model: the forward of block 'a' reads a parameter missing from its parameters() (" + row.what));
    }
  }
}

TEST(Undeclared, AConstantThatIsChangedIsNamedWithItsBlock) {
  const auto counts = [](Layers& l, const at::Tensor& x) {
    l.counter.add_(1);
    return x;
  };
  for (const bool evaluates : {false, true}) {
    EXPECT_THAT(refused(counts, evaluates), HasSubstr("the forward of block 'a' changed its buffer 'a.counter', which is taken "
                                                      "for constant"));
  }
}

}  // namespace
}  // namespace weft::undeclared_test
