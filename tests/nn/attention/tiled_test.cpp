// Attention in tiles: as exact as LibTorch's kernel for any sizes and strides, with the same bits on every instruction set and
// any number of threads.
#include "weft/nn/attention/tiled.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>

#include "tests/nn/relative_error.h"
#include "tests/support/seeds.h"

namespace weft::tiled_test {
namespace {

using test::relative_error;

struct Shape {
  int64_t batch, heads, kv_heads, queries, keys, width;
  AttentionMask mask;
};

// Tiles have 64 queries and keys, vectors at most 16 elements of a head.
constexpr AttentionMask kCausal = AttentionMask::causal, kAll = AttentionMask::none;
const Shape kShapes[] = {{2, 3, 3, 64, 64, 64, kCausal},  {1, 4, 2, 130, 130, 20, kCausal}, {2, 2, 1, 193, 193, 16, kCausal},
                         {1, 2, 2, 65, 65, 100, kCausal}, {1, 4, 2, 70, 133, 48, kAll},     {1, 1, 1, 1, 200, 7, kAll},
                         {3, 2, 2, 1, 1, 33, kCausal},    {1, 2, 2, 200, 3, 64, kAll}};

struct Inputs {
  at::Tensor q, k, v, dout;
};

// Layout of a projection's output: heads adjacent in a token, q, k and v interleaved with other data.
at::Tensor heads_of_rows(int64_t batch, int64_t tokens, int64_t heads, int64_t width, at::ScalarType dtype) {
  return at::randn({batch, tokens, heads * width + 5})
      .to(dtype)
      .narrow(2, 3, heads * width)
      .unflatten(2, {heads, width})
      .transpose(1, 2);
}

Inputs inputs_of(const Shape& s, at::ScalarType dtype) {
  return {
      heads_of_rows(s.batch, s.queries, s.heads, s.width, dtype), heads_of_rows(s.batch, s.keys, s.kv_heads, s.width, dtype),
      heads_of_rows(s.batch, s.keys, s.kv_heads, s.width, dtype), heads_of_rows(s.batch, s.queries, s.heads, s.width, dtype)};
}

// Output, log-sums, and gradients of q, k and v.
using Results = std::vector<at::Tensor>;

Results in_tiles(const Inputs& in, AttentionMask mask) {
  const AttentionPiece piece = attend_in_tiles(in.q, in.k, in.v, mask);
  const AttentionGradients into{at::full_like(in.q, NAN), at::full_like(in.k, NAN), at::full_like(in.v, NAN)};
  attend_backward_in_tiles(in.dout, in.q, in.k, in.v, piece, mask, into);
  return {piece.out, piece.logsumexp, into.q, into.k, into.v};
}

Results of_libtorch(const Inputs& in, AttentionMask mask) {
  const bool causal = mask == kCausal;
  const auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(in.q, in.k, in.v, 0.0, causal);
  const auto [dq, dk, dv] =
      at::_scaled_dot_product_flash_attention_for_cpu_backward(in.dout, in.q, in.k, in.v, out, sums, 0.0, causal);
  return {out, sums, dq, dk, dv};
}

Results exact(const Inputs& in, AttentionMask mask) {
  const auto leaf = [](const at::Tensor& x) { return x.to(at::kDouble).requires_grad_(true); };
  const at::Tensor q = leaf(in.q), k = leaf(in.k), v = leaf(in.v);
  const at::Tensor out = at::scaled_dot_product_attention(q, k, v, {}, 0.0, mask == kCausal, {}, /*enable_gqa=*/true);
  out.backward(in.dout.to(at::kDouble));
  const at::NoGradGuard no_grad;
  const auto [same, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, mask == kCausal);
  return {out.detach(), sums, q.grad(), k.grad(), v.grad()};
}

TEST(TiledAttention, IsAsExactAsLibTorchs) {
  for (const unsigned seed : test::seeds(2)) {
    SCOPED_TRACE(test::replay(seed));
    at::manual_seed(seed);
    for (const Shape& shape : kShapes) {
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(
            fmt::format("{} queries, {} keys, width {}, {}", shape.queries, shape.keys, shape.width, c10::toString(dtype)));
        const Inputs in = inputs_of(shape, dtype);
        ASSERT_TRUE(fits_tiles(in.q, in.k, in.v));
        const Results expected = exact(in, shape.mask);
        const at::NoGradGuard no_grad;
        const Results ours = in_tiles(in, shape.mask), theirs = of_libtorch(in, shape.mask);
        const double floor = dtype == at::kFloat ? 8e-7 : 4e-3;
        for (size_t i = 0; i < ours.size(); ++i) {
          EXPECT_EQ(ours[i].sizes(), theirs[i].sizes());
          if (expected[i].abs().max().item().toDouble() < 1e-9) continue;  // one key: queries and keys get no gradient
          EXPECT_LT(relative_error(ours[i], expected[i]), 2 * relative_error(theirs[i], expected[i]) + floor) << "result " << i;
        }
      }
    }
  }
}

void expect_same(const Results& a, const Results& b) {
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << "result " << i;
}

TEST(TiledAttention, HasTheSameBitsWhateverComputes) {
  at::manual_seed(5);
  const int threads = at::get_num_threads();
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (const Shape& shape : kShapes) {
    const Inputs in = inputs_of(shape, at::kFloat);
    const Results expected = in_tiles(in, shape.mask);
    for (const int number : {1, 2, 3}) {
      at::set_num_threads(number);
      expect_same(in_tiles(in, shape.mask), expected);
    }
    at::set_num_threads(threads);
    for (const int64_t target : targets) {
      if ((target & (HWY_AVX3 | HWY_AVX2 | HWY_NEON)) == 0) continue;  // without fused multiply-adds
      hwy::SetSupportedTargetsForTest(target);
      expect_same(in_tiles(in, shape.mask), expected);
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(TiledAttention, WritesViewsAndNothingBeside) {
  at::manual_seed(6);
  const Inputs in = inputs_of({2, 2, 2, 70, 70, 20, kCausal}, at::kFloat);
  const Results expected = in_tiles(in, kCausal);
  const at::Tensor all = at::full({2, 70, 3 * 40 + 8}, 7.0F);
  const auto third = [&](int64_t i) { return all.narrow(2, 40 * i, 40).unflatten(2, {2, 20}).transpose(1, 2); };
  attend_backward_in_tiles(in.dout, in.q, in.k, in.v, {expected[0], expected[1]}, kCausal, {third(0), third(1), third(2)});
  for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(third(i).equal(expected[static_cast<size_t>(2 + i)]));
  EXPECT_TRUE(all.narrow(2, 120, 8).eq(7.0F).all().item().toBool());
}

TEST(TiledAttention, TakesAnyStridesAndTypes) {
  at::manual_seed(9);
  const Inputs in = inputs_of({2, 2, 2, 70, 70, 20, kCausal}, at::kFloat);
  const Results expected = in_tiles(in, kCausal);
  const auto turned = [](const at::Tensor& x) { return x.transpose(2, 3).contiguous().transpose(2, 3); };
  const AttentionGradients into{turned(in.q), turned(in.k), turned(in.v)};
  const AttentionPiece piece{turned(expected[0]).to(at::kDouble), expected[1]};
  attend_backward_in_tiles(turned(in.dout), turned(in.q), turned(in.k), turned(in.v), piece, kCausal, into);
  EXPECT_TRUE(attend_in_tiles(turned(in.q), turned(in.k), turned(in.v), kCausal).out.equal(expected[0]));
  expect_same({into.q, into.k, into.v}, {expected[2], expected[3], expected[4]});
}

TEST(TiledAttention, WhatIsNoNumberStaysNone) {
  at::manual_seed(7);
  const Inputs in = inputs_of({1, 1, 1, 100, 100, 16, kCausal}, at::kFloat);
  in.k.narrow(2, 70, 1).fill_(NAN);
  const at::Tensor out = attend_in_tiles(in.q, in.k, in.v, kCausal).out;
  EXPECT_TRUE(out.narrow(2, 70, 30).isnan().all().item().toBool());
  EXPECT_FALSE(out.narrow(2, 0, 70).isnan().any().item().toBool());  // hidden from them
}

TEST(TiledAttention, TakesScoresFarApart) {
  at::manual_seed(8);
  Inputs in = inputs_of({1, 2, 2, 150, 150, 16, kCausal}, at::kFloat);
  in.q = in.q.mul(300.0);
  const at::NoGradGuard no_grad;
  const at::Tensor out = attend_in_tiles(in.q, in.k, in.v, kCausal).out;
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  EXPECT_LT(relative_error(out, at::scaled_dot_product_attention(wide(in.q), wide(in.k), wide(in.v), {}, 0.0, true)), 1e-3);
}

}  // namespace
}  // namespace weft::tiled_test
