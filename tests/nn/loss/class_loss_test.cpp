// Cross-entropy computed together with its gradient: as exact as LibTorch's, with the same bits on any processor, in one tensor
// of memory.
#include "weft/nn/loss/class_loss.h"

#include <ATen/Parallel.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>

#include "tests/nn/relative_error.h"
#include "tests/support/refusal.h"
#include "tests/support/seeds.h"
#include "weft/nn/operators_path.h"

namespace weft::class_loss_test {
namespace {

using test::relative_error;

constexpr int64_t kIgnored = -100;

struct Case {
  at::Tensor logits, target;
};

Case make_case(int64_t rows, int64_t classes) {
  Case c{at::randn({rows, classes}).mul_(5.0), at::randint(classes, {rows}, at::kLong)};
  if (rows > 2) c.target.narrow(0, 1, 1).fill_(kIgnored);
  return c;
}

/// Value and gradient of a loss that counts three times.
struct Result {
  at::Tensor value, gradient;
};

Result ours(const Case& c) {
  const at::Tensor x = c.logits.detach().clone().requires_grad_(true), loss = class_loss(x, c.target, kIgnored);
  loss.mul(3.0).backward();
  return {loss.detach(), x.grad()};
}

Result of_libtorch(const Case& c, at::ScalarType dtype) {
  const at::Tensor x = c.logits.detach().to(dtype).clone().requires_grad_(true);
  const at::Tensor loss = at::cross_entropy_loss(x, c.target, {}, at::Reduction::Sum, kIgnored);
  loss.mul(3.0).backward();
  return {loss.detach(), x.grad()};
}

TEST(ClassLoss, IsAsExactAsLibTorchs) {
  for (const unsigned seed : test::seeds(2)) {
    SCOPED_TRACE(test::replay(seed));
    at::manual_seed(seed);
    for (const auto& [rows, classes] : {std::pair<int64_t, int64_t>{1, 2}, {7, 17}, {64, 256}, {33, 1003}}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, classes));
      const Case c = make_case(rows, classes);
      const Result got = ours(c), theirs = of_libtorch(c, at::kFloat), exact = of_libtorch(c, at::kDouble);
      EXPECT_LT(relative_error(got.value, exact.value), 2 * relative_error(theirs.value, exact.value) + 1e-7);
      EXPECT_LT(relative_error(got.gradient, exact.gradient), 2 * relative_error(theirs.gradient, exact.gradient) + 1e-7);
    }
  }
}

/// On a device, of logits of any type: the gradient has their type.
TEST(ClassLoss, OnADeviceReadsNarrowLogits) {
  const ForcedOperators forced;
  at::manual_seed(5);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    Case c = make_case(33, 1003);
    c.logits = c.logits.to(type);
    const Result got = ours(c), exact = of_libtorch(c, at::kDouble);
    EXPECT_EQ(got.gradient.scalar_type(), type);
    EXPECT_LT(relative_error(got.value, exact.value), 1e-6) << c10::toString(type);
    EXPECT_LT(relative_error(got.gradient, exact.gradient), type == at::kBFloat16 ? 4e-3 : 1e-3) << c10::toString(type);
  }
}

TEST(ClassLoss, HasTheSameBitsWhateverComputes) {
  at::manual_seed(3);
  const int threads = at::get_num_threads();
  const Case c = make_case(50, 333);
  const Result expected = ours(c);
  const auto expect_same = [&] {
    const Result got = ours(c);
    EXPECT_TRUE(got.value.equal(expected.value));
    EXPECT_TRUE(got.gradient.equal(expected.gradient));
  };
  for (const int number : {1, 2, 3}) {
    at::set_num_threads(number);
    expect_same();
  }
  at::set_num_threads(threads);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if ((target & (HWY_AVX3 | HWY_AVX2 | HWY_NEON)) == 0) continue;  // without fused multiply-adds
    hwy::SetSupportedTargetsForTest(target);
    expect_same();
    hwy::SetSupportedTargetsForTest(0);
  }
}

TEST(ClassLoss, TakesLogitsFarApartAndNoNumbers) {
  Case c = make_case(3, 20);
  c.logits.mul_(1e30);
  EXPECT_TRUE(std::isfinite(ours(c).value.item().toDouble()));
  c.logits.fill_(-2e38).select(1, 0).fill_(2e38);
  c.target.fill_(1);
  EXPECT_EQ(ours(c).value.item().toDouble(), INFINITY) << "above float32's largest";
  for (const int64_t column : {0, 19}) {  // in a vector, and after the last one
    Case other = make_case(3, 20);
    other.logits[0][column] = NAN;
    EXPECT_TRUE(std::isnan(ours(other).value.item().toDouble())) << column;
    other.logits[0][column] = INFINITY;
    EXPECT_FALSE(std::isfinite(ours(other).value.item().toDouble())) << column;
  }
}

TEST(ClassLoss, RefusesWhatIsNoClass) {
  for (const int64_t wrong : {20, -1}) {
    Case c = make_case(3, 20);
    c.target[2] = wrong;
    EXPECT_EQ(test::refusal([&] { ours(c); }),
              fmt::format("loss: target {} at position 2 is not one of the 20 classes of the logits", wrong));
  }
}

TEST(ClassLoss, IsRunBackwardOnce) {
  const at::Tensor x = at::randn({4, 5}).requires_grad_(true);
  const at::Tensor loss = class_loss(x, at::zeros({4}, at::kLong), kIgnored), two = loss.mul(2.0);
  two.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(two.backward(), c10::Error);
}

TEST(ClassLoss, LeavesLogitsAndMakesNoGradientThatNobodyWants) {
  const Case c = make_case(6, 9);
  const at::Tensor before = c.logits.clone();
  const at::NoGradGuard no_grad;
  const at::Tensor loss = class_loss(c.logits, c.target, kIgnored);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_TRUE(c.logits.equal(before));
  EXPECT_FALSE(class_loss(c.logits.narrow(0, 0, 0), c.target.narrow(0, 0, 0), kIgnored).item().toBool());
}

}  // namespace
}  // namespace weft::class_loss_test
