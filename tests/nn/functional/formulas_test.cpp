// Functions with a custom backward against their formulas in float64 with autograd's backward: values and every gradient.
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/functional/swiglu.h"

namespace weft::formulas_test {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr double kEps = 1e-2;  // large, so that a misplaced eps shows
constexpr double kTheta = 100.0;

at::Tensor rms_formula(const at::Tensor& x, const at::Tensor& weight) {
  return x.div(x.square().mean(-1, true).add(kEps).sqrt()).mul(weight);
}

/// Unordered and not from 0: a rank may hold any part of a sequence.
at::Tensor positions() { return at::tensor({5, 3, 11, 0, 40, 7}, at::kLong); }

at::Tensor rotated(const at::Tensor& x) { return rotate(x, rotation_at(positions(), x.size(-1), kTheta, x.scalar_type())); }

/// Pair (i, i + half) as a complex number, times e^(position theta^(-i / half) i).
at::Tensor rotary_formula(const at::Tensor& x) {
  const int64_t half = x.size(-1) / 2;
  Tensors low, high;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(kTheta, -static_cast<double>(i) / static_cast<double>(half));
    const at::Tensor angle = positions().to(at::kDouble).mul(frequency);
    const at::Tensor real = x.select(-1, i), imaginary = x.select(-1, i + half);
    low.push_back(real.mul(angle.cos()).sub(imaginary.mul(angle.sin())).unsqueeze(-1));
    high.push_back(real.mul(angle.sin()).add(imaginary.mul(angle.cos())).unsqueeze(-1));
  }
  low.insert(low.end(), high.begin(), high.end());
  return at::cat(low, -1);
}

at::Tensor attention_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  Tensors heads;
  for (int64_t h = 0; h < q.size(1); ++h) {
    const int64_t shared = h / (q.size(1) / k.size(1)), tokens = q.size(2);
    const at::Tensor scores =
        q.select(1, h).matmul(k.select(1, shared).transpose(1, 2)).div(std::sqrt(static_cast<double>(q.size(3))));
    const at::Tensor mask = at::ones({tokens, tokens}, at::kBool).triu(1);
    heads.push_back(scores.masked_fill(mask, -1e30).softmax(-1).matmul(v.select(1, shared)));
  }
  return at::cat(heads, -1);
}

struct Case {
  const char* name;
  std::vector<std::vector<int64_t>> shapes;  ///< of the arguments
  at::Tensor (*ours)(const Tensors& x);
  at::Tensor (*formula)(const Tensors& x);
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::vector<Case> cases() {
  const auto rms = [](const Tensors& x) { return normalise(x[0], {.weight = x[1], .eps = kEps}); };
  const auto rms_expected = [](const Tensors& x) { return rms_formula(x[0], x[1]); };
  const auto rotary = [](const Tensors& x) { return rotated(x[0]); };
  const auto rotary_transposed = [](const Tensors& x) { return rotated(x[0].transpose(1, 2)); };
  const auto gate = [](const Tensors& x) { return swiglu(x[0], x[1]); };
  const auto attend = [](const Tensors& x) { return attention(x[0], x[1], x[2]); };
  const auto attend_expected = [](const Tensors& x) { return attention_formula(x[0], x[1], x[2]); };
  return {
      {"rms_norm", {{2, 5, 16}, {16}}, rms, rms_expected},
      {"rms_norm_of_rows", {{7, 33}, {33}}, rms, rms_expected},
      {"rotary", {{2, 3, 6, 8}}, rotary, [](const Tensors& x) { return rotary_formula(x[0]); }},
      {"rotary_tokens_outside_heads",
       {{2, 6, 3, 2}},
       rotary_transposed,
       [](const Tensors& x) { return rotary_formula(x[0].transpose(1, 2)); }},
      {"swiglu", {{3, 4, 10}, {3, 4, 10}}, gate, [](const Tensors& x) { return at::silu(x[0]).mul(x[1]); }},
      {"attention", {{2, 4, 9, 8}, {2, 4, 9, 8}, {2, 4, 9, 8}}, attend, attend_expected},
      {"attention_in_pairs", {{2, 4, 9, 8}, {2, 2, 9, 8}, {2, 2, 9, 8}}, attend, attend_expected},
      {"attention_one_key", {{2, 6, 40, 4}, {2, 1, 40, 4}, {2, 1, 40, 4}}, attend, attend_expected},
  };
}

class FormulaTest : public ::testing::TestWithParam<Case> {};

TEST_P(FormulaTest, HoldsForValueAndGradients) {
  Tensors x, exact;
  for (const auto& shape : GetParam().shapes) {
    x.push_back(at::randn(shape, at::detail::createCPUGenerator(x.size() + 1), at::kFloat).requires_grad_(true));
    exact.push_back(x.back().detach().to(at::kDouble).requires_grad_(true));
  }
  const at::Tensor y = GetParam().ours(x), expected = GetParam().formula(exact);
  EXPECT_TRUE(at::allclose(y.to(at::kDouble), expected, 1e-5, 2e-6)) << y.to(at::kDouble).sub(expected).abs().max();
  const at::Tensor dy = at::randn(y.sizes(), at::detail::createCPUGenerator(9), at::kFloat);
  y.backward(dy);
  expected.backward(dy.to(at::kDouble));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(at::allclose(x[i].grad().to(at::kDouble), exact[i].grad(), 1e-4, 1e-5))
        << "argument " << i << ": " << x[i].grad().to(at::kDouble).sub(exact[i].grad()).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(Table, FormulaTest, ::testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

// Order of roundings in transformers' LlamaRMSNorm: normalised in float32, rounded, then times the weight.
TEST(RmsNorm, RoundsANarrowInputWhereTransformersDoes) {
  const at::Tensor x = at::randn({64, 48}).to(at::kBFloat16), weight = at::randn({48}).to(at::kBFloat16);
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor normalised = wide.mul(wide.square().mean(-1, true).add(kEps).rsqrt());
  EXPECT_TRUE(at::equal(normalise(x, {.weight = weight, .eps = kEps}), normalised.to(at::kBFloat16).mul(weight)));
  EXPECT_FALSE(at::equal(normalise(x, {.weight = weight, .eps = kEps}), normalised.mul(weight).to(at::kBFloat16)))
      << "the test proves nothing";
}

TEST(Rotary, ProductsDependOnDistancesAlone) {
  const at::Tensor q = at::randn({8}), k = at::randn({8});
  const auto product = [&](int64_t query, int64_t key) {
    const auto at_position = [](const at::Tensor& x, int64_t p) {
      return rotate(x.unsqueeze(0), rotation_at(at::arange(p, p + 1, at::kLong), 8, 10000.0, at::kFloat)).squeeze(0);
    };
    return at_position(q, query).dot(at_position(k, key)).item<double>();
  };
  EXPECT_NEAR(product(9, 4), product(105, 100), 1e-4);
  EXPECT_GT(std::abs(product(9, 4) - product(9, 8)), 1e-3);
}

TEST(Refusals, NameTheSizes) {
  EXPECT_EQ(test::refusal([] { rotation_at(positions(), 5, kTheta, at::kFloat); }),
            "rotary embedding: a head of 5 elements cannot be rotated; its width must be even");
  const at::Tensor q = at::ones({1, 4, 2, 2}), k = at::ones({1, 3, 2, 2});
  EXPECT_EQ(test::refusal([&] { attention(q, k, k); }),
            "attention: 4 query heads do not share 3 key-value heads evenly; make q's a multiple");
}

}  // namespace
}  // namespace weft::formulas_test
