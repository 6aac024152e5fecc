// Pieces of attention: both kernels against the exact formula and each other, and merged pieces against the whole.
#include "weft/nn/attention/partial.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "tests/nn/relative_error.h"
#include "tests/support/seeds.h"

namespace weft::partial_test {
namespace {

using test::relative_error;

struct Shape {
  int64_t heads, kv_heads, queries, keys;
  AttentionMask mask;
};

const Shape kShapes[] = {{3, 3, 9, 9, AttentionMask::causal},
                         {4, 2, 40, 40, AttentionMask::causal},
                         {4, 1, 8, 13, AttentionMask::none},
                         {6, 3, 33, 16, AttentionMask::none}};

const struct {
  at::ScalarType dtype;
  int64_t width;
  at::MemoryFormat format;
} kTypes[] = {{at::kFloat, 8, at::MemoryFormat::Contiguous},
              {at::kFloat, 8, at::MemoryFormat::ChannelsLast},
              {at::kBFloat16, 8, at::MemoryFormat::Contiguous},
              {at::kBFloat16, 12, at::MemoryFormat::Contiguous},
              {at::kBFloat16, 12, at::MemoryFormat::ChannelsLast}};

at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype) { return at::randn(sizes).to(dtype); }

TEST(AttentionPiece, KernelsEqualTheExactFormula) {
  for (const unsigned seed : test::seeds(3)) {
    SCOPED_TRACE(test::replay(seed));
    at::manual_seed(seed);
    for (const auto& [heads, kv_heads, queries, keys, mask] : kShapes) {
      for (const auto& [dtype, width, format] : kTypes) {
        const double bound = dtype == at::kFloat ? 2e-6 : 2e-2;
        const auto made = [&, type = dtype, strides = format](at::IntArrayRef sizes) {
          return random(sizes, type).contiguous(strides);
        };
        const at::Tensor q = made({2, heads, queries, width}), dout = made(q.sizes());
        const at::Tensor k = made({2, kv_heads, keys, width}), v = made(k.sizes());
        const auto leaf = [](const at::Tensor& x) { return x.to(at::kDouble).requires_grad_(true); };
        const at::Tensor q2 = leaf(q), k2 = leaf(k), v2 = leaf(v);
        const at::Tensor exact = at::scaled_dot_product_attention(q2, k2, v2, {}, 0.0, mask == AttentionMask::causal, {}, true);
        exact.backward(dout.to(at::kDouble));
        for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::fused, AttentionKernel::formula}) {
          const at::NoGradGuard without_graph;
          const AttentionPiece piece = attend(q, k, v, mask, kernel);
          EXPECT_EQ(piece.out.scalar_type(), dtype);
          EXPECT_EQ(piece.logsumexp.scalar_type(), at::kFloat);
          EXPECT_LT(relative_error(piece.out, exact), bound);
          const at::Tensor other = attend(q, k, v, mask, AttentionKernel::flash).logsumexp;
          EXPECT_LT(relative_error(piece.logsumexp, other), bound);
          const AttentionGradients gradients = attend_backward(dout, q, k, v, piece, mask, kernel);
          EXPECT_LT(relative_error(gradients.q, q2.grad()), bound);
          EXPECT_LT(relative_error(gradients.k, k2.grad()), bound);
          EXPECT_LT(relative_error(gradients.v, v2.grad()), bound);
          EXPECT_EQ(gradients.k.sizes(), k.sizes());
          EXPECT_EQ(gradients.v.scalar_type(), dtype);
        }
      }
    }
  }
}

TEST(AttentionPiece, JoinedPiecesAreTheWhole) {
  at::manual_seed(1);
  // Scores far apart: none of the exponentials may overflow.
  const at::Tensor q = random({2, 2, 5, 8}, at::kFloat).mul(40.0), k = random({2, 2, 12, 8}, at::kFloat).mul(40.0);
  const at::Tensor v = random({2, 2, 12, 8}, at::kFloat);
  for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::fused, AttentionKernel::formula}) {
    const AttentionPiece exact = attend(q, k, v, AttentionMask::none, kernel);
    const auto piece = [&](int64_t first, int64_t count) {
      return attend(q, k.narrow(2, first, count), v.narrow(2, first, count), AttentionMask::none, kernel);
    };
    const AttentionPiece whole = piece(0, 3);
    join(whole, piece(3, 5));
    join(whole, piece(8, 4));
    EXPECT_LT(relative_error(whole.out, exact.out), 1e-5);
    EXPECT_LT(relative_error(whole.logsumexp, exact.logsumexp), 1e-6);
  }
}

}  // namespace
}  // namespace weft::partial_test
