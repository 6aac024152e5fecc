// The head's losses in chunks against the loss of its logits, in plain autograd.
#include "weft/nn/loss/language_head.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/refusal.h"
#include "weft/nn/loss/split_cross_entropy.h"

namespace weft::language_head_test {
namespace {

constexpr int64_t kBatch = 3, kTokens = 8, kWidth = 16, kWords = 23;

/// A head whose parameters are in no flat buffer, and its input.
struct Head {
  Head(bool trains_before, bool trains_weight) {
    auto generator = at::detail::createCPUGenerator(3);
    x = at::randn({kBatch, kTokens, kWidth}, generator, at::kFloat).requires_grad_(trains_before);
    norm.value = at::randn({kWidth}, generator, at::kFloat).requires_grad_(trains_before);
    weight.value = at::randn({kWords, kWidth}, generator, at::kFloat).requires_grad_(trains_weight);
    target = at::randint(kWords, {kBatch, kTokens}, generator, at::kLong);
    target.narrow(1, 2, 2).fill_(-100);
  }

  Context context(int64_t chunk, bool training) const {
    Context context{.training = training, .layout = {.loss_chunk = chunk}};
    if (chunk > 0) context.target = target;
    return context;
  }
  Tensors outputs(int64_t chunk, bool training = true) {
    return language_head(x, {&norm, nullptr, 1e-5}, {&weight, nullptr}, kWords, context(chunk, training));
  }

  at::Tensor x, target;
  Parameter norm, weight;
};

void expect_same_gradient(const at::Tensor& actual, const at::Tensor& expected, const char* what) {
  ASSERT_EQ(actual.grad().defined(), expected.grad().defined()) << what;
  if (!actual.grad().defined()) return;
  EXPECT_TRUE(at::allclose(actual.grad(), expected.grad(), 1e-5, 1e-5)) << what;
}

TEST(LanguageHead, HasLossesAndGradientsOfItsLogits) {
  for (const auto& [before, weight] : {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
    for (const int64_t chunk : {1, 5, 8, 24, 100}) {
      Head whole(before, weight), chunks(before, weight);
      const LossValue expected = vocabulary_cross_entropy(kWords)(whole.outputs(0), whole.target, whole.context(0, true));
      const Tensors losses = chunks.outputs(chunk);
      ASSERT_EQ(losses.size(), 1U);
      EXPECT_EQ(losses[0].numel(), (kBatch * kTokens + chunk - 1) / chunk);
      const LossValue actual = vocabulary_cross_entropy(kWords)(losses, chunks.target, chunks.context(chunk, true));
      EXPECT_EQ(actual.count, expected.count);
      EXPECT_NEAR(actual.sum.item<double>(), expected.sum.item<double>(), 1e-3);
      torch::autograd::backward({expected.sum}, {});
      torch::autograd::backward({actual.sum}, {});
      expect_same_gradient(chunks.weight.value, whole.weight.value, "weight");
      if (!before) continue;
      expect_same_gradient(chunks.x, whole.x, "x");
      expect_same_gradient(chunks.norm.value, whole.norm.value, "norm");
    }
  }
}

TEST(LanguageHead, CountsHitsInEvaluation) {
  Head head(false, false);
  const Tensors logits = head.outputs(0, false), chunks = head.outputs(5, false);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(vocabulary_hits(kWords)(chunks, head.target, head.context(5, false)),
            vocabulary_hits(kWords)(logits, head.target, head.context(0, false)));
}

TEST(LanguageHead, RefusesWrongTargets) {
  Head head(true, true);
  head.target.select(0, 2).fill_(kWords);
  EXPECT_EQ(test::refusal([&] { head.outputs(5); }),
            "loss: target 23 is not one of 23 classes; check the data, or the model's vocabulary");
  head.target = head.target.narrow(1, 0, 4);
  EXPECT_NE(test::refusal([&] { head.outputs(5); }), "");
}

}  // namespace
}  // namespace weft::language_head_test
