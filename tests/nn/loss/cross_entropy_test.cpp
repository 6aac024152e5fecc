// Losses and counts of whole logits.
#include "weft/nn/loss/cross_entropy.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "weft/nn/model.h"

namespace weft::cross_entropy_test {
namespace {

/// The definition, in double.
at::Tensor reference(const at::Tensor& logits, const at::Tensor& likely, double smoothing) {
  const int64_t classes = logits.size(-1);
  const at::Tensor mixed = likely.to(at::kDouble).mul(1 - smoothing).add(smoothing / static_cast<double>(classes));
  return logits.to(at::kDouble).log_softmax(-1).mul(mixed).sum().neg();
}

/// torch.nn.functional.cross_entropy(label_smoothing): value and gradient, for class ids, some of them ignored, and for
/// probabilities.
TEST(SmoothedCrossEntropy, IsTorchs) {
  constexpr int64_t kClasses = 7, kRows = 12;
  const at::Tensor target = at::randint(kClasses, {kRows}, at::kLong);
  const at::Tensor likely = at::softmax(at::randn({kRows, kClasses}), 1);
  at::Tensor one_hot = at::zeros({kRows, kClasses}).scatter(1, target.unsqueeze(1), 1.0);
  for (const double smoothing : {0.0, 0.1, 0.6}) {
    const Loss loss = smoothed_cross_entropy(smoothing);
    const at::Tensor logits = at::randn({kRows, kClasses}).requires_grad_();
    EXPECT_NEAR(loss({logits}, target).sum.item<double>(), reference(logits, one_hot, smoothing).item<double>(), 1e-4);
    EXPECT_EQ(loss({logits}, target).count, kRows);
    const LossValue value = loss({logits}, likely);
    EXPECT_NEAR(value.sum.item<double>(), reference(logits, likely, smoothing).item<double>(), 1e-4);
    EXPECT_EQ(value.count, kRows);
    value.sum.backward();
    const at::Tensor mixed = likely.mul(1 - smoothing).add(smoothing / kClasses);
    EXPECT_TRUE(at::allclose(logits.grad(), at::softmax(logits.detach(), 1).sub(mixed), 1e-4, 1e-5)) << smoothing;
    EXPECT_TRUE(at::allclose(cross_entropy({logits}, one_hot).sum, cross_entropy({logits}, target).sum, 1e-5));
    at::Tensor some = target.clone();
    some.narrow(0, 0, 4).fill_(-100);
    const LossValue rest = loss({logits}, some);
    EXPECT_EQ(rest.count, kRows - 4);
    EXPECT_NEAR(rest.sum.item<double>(),
                reference(logits.narrow(0, 4, kRows - 4), one_hot.narrow(0, 4, kRows - 4), smoothing).item<double>(), 1e-4);
  }
  EXPECT_NE(test::refusal([] { smoothed_cross_entropy(1.0); }), "");
  EXPECT_EQ(test::refusal([&] {
              cross_entropy({at::zeros({2, 3})}, at::zeros({2, 4}));
            }),
            "loss: targets for 4 classes, logits of 3");
}

TEST(CountTop5, CountsAsTopkDoes) {
  for (const int64_t classes : {6, 10, 1000}) {
    const at::Tensor logits = at::randn({64, classes});
    at::Tensor target = at::randint(classes, {64}, at::kLong);
    target.narrow(0, 0, 8).fill_(-100);
    const at::Tensor best = std::get<1>(logits.topk(5));
    EXPECT_EQ(count_top5({logits}, target), best.eq(target.unsqueeze(1)).any(1).sum().item<int64_t>()) << classes;
  }
}

TEST(CountTop5, OfEqualLogitsTheLowerClassesComeFirst) {
  const at::Tensor logits = at::zeros({8, 8});
  EXPECT_EQ(count_top5({logits}, at::arange(8, at::kLong)), 5);
  EXPECT_EQ(count_hits({logits}, at::arange(8, at::kLong)), 1) << "as argmax has it";
  EXPECT_EQ(count_top5({logits}, at::full({8}, -100, at::kLong)), 0);
}

TEST(CountTop5, OfLikelihoodsTheLikeliestClassIsTheTarget) {
  const at::Tensor logits = at::randn({64, 8}), likely = at::softmax(at::randn({64, 8}), 1), ids = likely.argmax(1);
  EXPECT_EQ(count_hits({logits}, likely), count_hits({logits}, ids));
  EXPECT_EQ(count_top5({logits}, likely), count_top5({logits}, ids));
}

TEST(HitsOf, AreThoseOfALossOfClasses) {
  EXPECT_TRUE(hits_of(cross_entropy));
  EXPECT_TRUE(hits_of(smoothed_cross_entropy(0.1)));
  EXPECT_FALSE(hits_of([](const Tensors& outputs, const at::Tensor& target) { return cross_entropy(outputs, target); }));
  EXPECT_FALSE(hits_of([](const Tensors& outputs, const at::Tensor& target, const Context& /*context*/) {
    return cross_entropy(outputs, target);
  }));
  EXPECT_FALSE(hits_of({}));
}

TEST(CountTop5, IsToldOfMoreThanFiveClassesAlone) {
  EXPECT_FALSE(top5_of(5));
  EXPECT_TRUE(top5_of(6));
}

}  // namespace
}  // namespace weft::cross_entropy_test
