// Parts in pieces: the positions of their elements, and the results of their layers.
#include "weft/nn/tensor_parallel/reproducible_parts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/nn/recorded_calls.h"
#include "weft/models/gpt.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_parallel/apply_splits.h"

namespace weft::reproducible_parts_test {
namespace {

/// A rank's share of `whole`, and its split.
struct Case {
  const char* name;
  std::vector<int64_t> shape;
  Split split;  ///< except ranks and pieces
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"fused queries, keys and values", {24, 5}, {.dim = 0, .segments = {8, 8, 8}}},
      {"rows", {3, 16}, {.dim = 1, .segments = {16}}},
      {"a bias", {8}, {.dim = 0, .segments = {8}}},
      {"a vocabulary that does not divide", {13, 16}, {.dim = 0, .segments = {13}}},
  };
  return all;
}

/// On any rank, a piece has the elements of one part per rank, and they return to their places.
TEST(Pieces, HoldThePartsOfMoreRanks) {
  constexpr int kParts = 4;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const int64_t numel = c10::multiply_integers(c.shape);
    const at::Tensor whole = at::arange(1, numel + 1, at::kFloat).view(c.shape);
    for (const int ranks : {1, 2, 4}) {
      const at::Tensor back = at::zeros_like(whole);
      for (int rank = 0; rank < ranks; ++rank) {
        Split split = c.split, one = c.split;
        split.parts = ranks, split.part = rank, split.pieces = kParts / ranks, one.parts = kParts;
        const at::Tensor own = take_part(whole, split);
        ASSERT_EQ(own.size(0), split.pieces);
        for (int piece = 0; piece < split.pieces; ++piece) {
          one.part = rank * split.pieces + piece;
          EXPECT_TRUE(at::equal(own[piece], take_part(whole, one))) << "rank " << rank << ", piece " << piece;
          EXPECT_EQ(own[piece].storage_offset() % 64, 0);
        }
        const at::Tensor memory = at::zeros({part_numel(c.shape, split)});
        part_in(memory, c.shape, split).copy_(own);
        put_part(back, memory, split);
      }
      EXPECT_TRUE(at::equal(back, whole)) << ranks << " ranks";
    }
  }
}

TEST(Pieces, PaddingIsZeroed) {
  const Split split{.dim = 0, .segments = {8}, .pieces = 2};
  const at::Tensor memory = at::arange(1, 129, at::kFloat);
  zero_padding(memory, {8}, split);
  EXPECT_EQ(memory.sum().item<float>(), 1 + 2 + 3 + 4 + 65 + 66 + 67 + 68);
}

/// 1 + 2^-24 is 1, and 2^-24 + 2^-24 is exact: only the tree gives 1 + 2^-23.
TEST(Pieces, AreSummedInATree) {
  const std::vector<float> terms = {1.0F, 0.0F, 0x1p-24F, 0x1p-24F};
  EXPECT_EQ(tree_sum(4, [&](int64_t i) { return at::scalar_tensor(terms[i]).clone(); }).item<float>(), 1.0F + 0x1p-23F);
}

/// Each block's cost on rank 0 of `tp`.
std::vector<MeasuredCost> costs(int tp, int fixed_parts) {
  Model model = gpt({.layers = 2, .heads = 4, .width = 32, .context = 8, .vocabulary = 13});
  split_layers(model, tp, 0, fixed_parts);
  return measure_cost(model, {at::empty({2, 8}, at::TensorOptions(at::kLong).device(at::kMeta))}, {.tp = tp});
}

/// The same work and bytes on the wire as with one piece per part; additionally kept for backward are only the norms' outputs,
/// which layers in pieces do not recompute.
TEST(Pieces, CostWhatWholePartsCost) {
  for (const int tp : {1, 2, 4}) {
    const std::vector<MeasuredCost> whole = costs(tp, 0), pieces = costs(tp, 4);
    for (size_t b = 0; b + 1 < whole.size(); ++b) {  // the vocabulary of the head is padded for other numbers of parts
      SCOPED_TRACE(fmt::format("tp {}, block {}", tp, b));
      EXPECT_EQ(sent(pieces[b].traffic.forward), sent(whole[b].traffic.forward));
      EXPECT_EQ(sent(pieces[b].traffic.backward), sent(whole[b].traffic.backward));
      EXPECT_EQ(pieces[b].forward_flops, whole[b].forward_flops);
      EXPECT_EQ(pieces[b].backward_flops, whole[b].backward_flops);
      constexpr int64_t kNorms = 2 * 2 * 8 * 32 * 4, kMasks = 1024;  // of the embedding's pieces
      EXPECT_LE(pieces[b].saved_bytes, whole[b].saved_bytes + (b == 0 ? kMasks : kNorms));
    }
  }
}

}  // namespace
}  // namespace weft::reproducible_parts_test
