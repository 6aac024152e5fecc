// Matrix products: near the exact ones for every operand layout, with the same bits at any address.
#include "weft/nn/functional/matmul.h"

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <ostream>
#include <thread>
#include <vector>

namespace weft {
namespace {

struct Product {
  int64_t m, k, n;
  bool a_transposed, b_transposed;
};

std::ostream& operator<<(std::ostream& out, const Product& p) {
  return out << p.m << "x" << p.k << (p.a_transposed ? "t" : "") << " by " << p.n << (p.b_transposed ? "t" : "");
}

std::vector<Product> products() {
  std::vector<Product> all;
  for (const auto& [m, k, n] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {7, 16, 5}, {100, 64, 33}, {64, 256, 768}, {129, 257, 65}}) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) all.push_back({m, k, n, a, b});
    }
  }
  return all;
}

/// [rows, columns], as a view of the transposed matrix if asked; `offset` elements into its storage.
at::Tensor matrix(const at::Tensor& values, bool transposed, int64_t offset = 0) {
  const at::Tensor source = transposed ? values.t() : values;
  const at::Tensor storage = at::zeros({offset + values.numel()}, values.options());
  const at::Tensor placed = storage.narrow(0, offset, values.numel()).view(source.sizes());
  placed.copy_(source);
  return transposed ? placed.t() : placed;
}

class MatmulTest : public testing::TestWithParam<Product> {
 protected:
  const Product& p_ = GetParam();
  at::Tensor a_ = at::randn({p_.m, p_.k}), b_ = at::randn({p_.k, p_.n}), before_ = at::randn({p_.m, p_.n});

  /// out += a b, with everything `offset` elements into its storage.
  at::Tensor added(int64_t offset) const {
    const at::Tensor out = matrix(before_, false, offset);
    multiply_add(out, matrix(a_, p_.a_transposed, offset), matrix(b_, p_.b_transposed, offset));
    return out;
  }
};

TEST_P(MatmulTest, IsNearTheExactProduct) {
  const at::Tensor exact = a_.to(at::kDouble).matmul(b_.to(at::kDouble));
  const at::Tensor out = at::empty({p_.m, p_.n}).fill_(std::numeric_limits<float>::quiet_NaN());
  multiply(out, matrix(a_, p_.a_transposed), matrix(b_, p_.b_transposed));
  EXPECT_TRUE(at::allclose(out.to(at::kDouble), exact, 1e-5, 1e-5 * static_cast<double>(p_.k)));
  EXPECT_TRUE(at::allclose(added(0).to(at::kDouble), exact.add(before_), 1e-5, 1e-5 * static_cast<double>(p_.k)));
}

TEST_P(MatmulTest, AddsABias) {
  const at::Tensor bias = at::randn({p_.n}), exact = a_.to(at::kDouble).matmul(b_.to(at::kDouble)).add(bias);
  const at::Tensor w = matrix(b_, false).t().contiguous();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor y = multiply_with_bias(matrix(a_, false).to(dtype), w.to(dtype), bias.to(dtype));
    EXPECT_EQ(y.scalar_type(), dtype);
    const double bound = dtype == at::kFloat ? 1e-5 : 2e-2;
    EXPECT_TRUE(at::allclose(y.to(at::kDouble), exact, bound, bound * std::sqrt(static_cast<double>(p_.k))));
  }
}

TEST_P(MatmulTest, HasTheSameBitsWhereverItsOperandsLieAndOnAnyThread) {
  const at::Tensor first = added(0);
  for (const int64_t offset : {16, 64, 192}) EXPECT_TRUE(at::equal(added(offset), first)) << offset;
  if (uses_onednn(a_, b_)) {
    EXPECT_TRUE(at::equal(added(3), first)) << "MKL's bits are those of aligned operands only";
  }
  at::Tensor elsewhere;
  std::thread([&] { elsewhere = added(0); }).join();
  EXPECT_TRUE(at::equal(elsewhere, first));
}

INSTANTIATE_TEST_SUITE_P(Table, MatmulTest, testing::ValuesIn(products()));

TEST(Matmul, WhoeverTurnsOneDnnOffGetsLibTorchsBits) {
  const at::Tensor a = at::randn({128, 128}), b = at::randn({128, 128});
  const at::Tensor out = at::empty({128, 128});
  at::globalContext().setUserEnabledMkldnn(false);
  const bool used = uses_onednn(a, b);
  multiply(out, a, b);
  at::globalContext().setUserEnabledMkldnn(true);
  EXPECT_FALSE(used);
  EXPECT_TRUE(at::equal(out, at::mm(a, b)));
}

TEST(Matmul, SmallAndNarrowProductsStayWithLibTorch) {
  EXPECT_FALSE(uses_onednn(at::zeros({32, 64}), at::zeros({64, 128})));
  const auto narrow = at::TensorOptions(at::kBFloat16);
  EXPECT_FALSE(uses_onednn(at::zeros({256, 256}, narrow), at::zeros({256, 256}, narrow)));
  const auto meta = at::TensorOptions(at::kMeta);
  EXPECT_FALSE(uses_onednn(at::empty({256, 256}, meta), at::empty({256, 256}, meta)));
}

}  // namespace
}  // namespace weft
