// Errors of public functions for tensors that do not fit, and cases that once were computed wrongly or ended the process.
// tests/fuzz_nn calls all functions with tensors of any kind.
#include "weft/nn/tensor_checks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/refusal.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/attention/partial.h"
#include "weft/nn/attention/within_documents.h"
#include "weft/nn/functional/column_sums.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/functional/swiglu.h"
#include "weft/nn/images/batch_norm.h"
#include "weft/nn/images/convolution.h"
#include "weft/nn/layers/embedding.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/layers/normed_linear.h"
#include "weft/nn/loss/class_loss.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/model.h"
#include "weft/nn/parameter_split.h"
#include "weft/nn/random.h"
#include "weft/nn/tensor_parallel/collectives.h"

namespace weft::tensor_checks_test {
namespace {

at::Tensor ones(auto... sizes) { return at::ones(at::IntArrayRef({int64_t{sizes}...})); }
at::Tensor ids(auto... sizes) { return ones(sizes...).to(at::kLong); }

/// A layer's parameter that lives as long as the test.
Parameter& parameter(const at::Tensor& value, bool bound = false) {
  static std::vector<std::unique_ptr<Parameter>> all;
  all.push_back(std::make_unique<Parameter>(Parameter{value, bound ? at::zeros(value.sizes()) : at::Tensor()}));
  return *all.back();
}

BatchNormState state(int64_t channels, int64_t of_var) {
  return {ones(channels), ones(channels), ones(channels), ones(of_var)};
}

struct Refused {
  std::function<void()> call;
  std::string text;
};

std::vector<Refused> refused_calls() {
  const at::Tensor q = ones(2, 4, 6, 8);
  return {
      {[] { weft::gelu({}); },
       "gelu: x is undefined; it must be a dense tensor, whose values lie in memory (contiguous(), to_dense(), resolve_neg())"},
      {[] { weft::gelu(ones(2, 2).to_sparse()); },
       "gelu: x is Float [2, 2]; it must be a dense tensor, whose values lie in memory (contiguous(), to_dense(), "
       "resolve_neg())"},
      {[] { weft::gelu(ids(2)); }, "gelu: x is Long [2]; it must be floating point with at least 0 dims"},
      {[] { swiglu(ones(2, 3), ones(3)); }, "swiglu: up is Float [3]; it must be Float [2, 3] on cpu"},
      {[] { swiglu(ones(2), ones(2).to(at::kDouble)); }, "swiglu: up is Double [2]; it must be Float [2] on cpu"},
      {[] { normalise(ones(), {ones(1)}); }, "norm: x is Float []; it must be floating point with at least 1 dims"},
      {[] {
         normalise(ones(2, 8), {ones(8), ones(4)});
       },
       "norm: bias is Float [4]; it must be [8] on cpu"},
      {[] { normalise(ones(2, 8), {ones(8).to(at::kMeta)}); }, "norm: weight is Float [8] on meta; it must be [8] on cpu"},
      {[] { normalise_sum(ones(2, 8), ones(8), {ones(8)}); }, "norm: added is Float [8]; it must be [2, 8] on cpu"},
      {[] {
         normed_linear(ones(1, 2, 8), ones(1, 1, 8), {&parameter(ones(8)), nullptr, 1e-5},
                       {{&parameter(ones(3, 8), true), nullptr}}, {});
       },
       "normed_linear: added is Float [1, 1, 8]; it must be [1, 2, 8] on cpu"},
      {[] {
         normed_linear(ones(1, 2, 8), {}, {&parameter(ones(8)), nullptr, 1e-5}, {}, {});
       },
       "normed_linear: no layers; without any, call normalise()"},
      {[] {
         dropout(ones(10), 0.5, {1, 2}, {{0, 4}});
       },
       "dropout: the runs lack 6 elements of x, Float [10]"},
      {[] {
         dropout(ones(10), 0.5, {1, 2}, {{0, 4}, {4, 1 << 20}});
       },
       "dropout: a run of 1048576 elements, but only 6 are left of x, Float [10]"},
      {[] {
         dropout(ones(10), 0.5, {1, 2}, std::numeric_limits<int64_t>::max());
       },
       "random: 10 elements from index 9223372036854775807 exceed the index range"},
      {[q] { attention(q, ones(2, 2, 6, 4), ones(2, 2, 6, 4)); },
       "attention: k is Float [2, 2, 6, 4]; it must be [2, *, 6, 8] on cpu"},
      {[q] { attention(q, ones(1, 2, 6, 8), ones(1, 2, 6, 8)); },
       "attention: k is Float [1, 2, 6, 8]; it must be [2, *, 6, 8] on cpu"},
      {[q] { attention(q, q, ones(2, 4, 7, 8)); }, "attention: v is Float [2, 4, 7, 8]; it must be Float [2, 4, 6, 8] on cpu"},
      {[q] { attention(q, q.to(at::kBFloat16), q.to(at::kBFloat16)); },
       "attention: k is BFloat16 [2, 4, 6, 8]; it must be Float"},
      {[q] { attention(q, ones(2, 0, 6, 8), ones(2, 0, 6, 8)); },
       "attention: 4 query heads do not share 0 key-value heads evenly; make q's a multiple"},
      {[] { attention(ones(2, 6, 24), 0); },
       "attention: rows of 24 do not hold queries, keys and values of 0 heads; split the projection by whole heads"},
      {[] { attention(ones(6, 24), 2); }, "attention: qkv is Float [6, 24]; it must be [*, *, *] on cpu"},
      {[] {
         document_attention(ones(2, 6, 24), 2, {{0, 1, 0, 6}, {1, 1, 0, 3}});
       },
       "attention within documents: the runs end at sample 1, token 3 of 2 x 6; they must cover all tokens"},
      {[] {
         document_attention(ones(2, 6, 24), 2, {{0, 3, 0, 6}});
       },
       "attention within documents: a run of 3 x 6 tokens at sample 0, token 0, but sample 0, token 0 of 2 x 6 comes next; "
       "runs must cover all tokens, in order"},
      {[q] {
         rotate(q, {ones(5, 4), ones(5, 4)});
       },
       "rotary embedding: cos is Float [5, 4]; it must be [6, 4] on cpu"},
      {[] {
         rotate(ones(2, 5), {ones(2, 2), ones(2, 2)});
       },
       "rotary embedding: x is Float [2, 5]; it must be of an even head width"},
      {[] {
         rotate(ones(2, 4), {ones(2, 2).requires_grad_(), ones(2, 2)});
       },
       "rotary embedding: cos is Float [2, 2]; it must be detached: it gets no gradient here"},
      {[] { rotation_at(ids(2, 2), 4, 1e4, at::kFloat); }, "rotary embedding: positions is Long [2, 2]; it must be [*] on cpu"},
      {[] { embedding(ids(2), parameter(ones(0, 4)), {}); },
       "embedding: ids is Long [2]; it must be empty, as the table is Float [0, 4]"},
      {[] { embedding(ids(2), parameter(ones(4)), {}); }, "embedding: weight is Float [4]; it must be [*, *] on cpu"},
      {[] { embedding(ones(2), parameter(ones(3, 4)), {}); }, "embedding: ids is Float [2]; it must be int64 or int32 on cpu"},
      {[] { class_loss(ones(3, 4), ids(2), -100); }, "loss: target is Long [2]; it must be [3] on cpu"},
      {[] { cross_entropy({ones(3, 4)}, ids(3).to(at::kInt)); }, "loss: target is Int [3]; it must be class ids, Long"},
      {[] { cross_entropy({ones(3, 4)}, ones(3)); },
       "loss: target is Float [3], logits are Float [3, 4]: class ids must be int64 (Long); floats are a probability per "
       "class"},
      {[] { cross_entropy({ones(2, 5, 4)}, ids(2, 4)); },
       "loss: target is Long [2, 4], logits are Float [2, 5, 4]: classes are the last dimension, unlike in PyTorch; "
       "logits.movedim(1, -1) has them there"},
      {[] { count_hits({ones(3, 4)}, ids(1)); }, "loss: target is Long [1]; it must be [3] on cpu"},
      {[] { linear(ones(2, 8), parameter(ones(3, 8), true), &parameter(ones(1), true)); },
       "linear layer: bias is Float [1]; it must be [3] on cpu"},
      {[] { linear(ones(), parameter(ones(3, 8)), nullptr, {}); },
       "linear layer: x is Float []; it must be floating point with at least 1 dims"},
      {[] {
         linear(ones(2, 8), *std::make_unique<Parameter>(Parameter{ones(3, 8), ones(3, 1)}), nullptr);
       },
       "layer: gradient of the weight is Float [3, 1]; it must be [3, 8] on cpu"},
      {[] { linear(ones(3, 8), parameter(ones(3, 8)), nullptr, {.layout = {.batch_pieces = 2}}); },
       "piece of a micro-batch: x is Float [3, 8]; it must be samples in 2 equal pieces, with a piece 0"},
      {[] { convolution(ones(1, 2, 4, 4), parameter(ones(3, 2, 3, 1)), nullptr); },
       "convolution: weight is Float [3, 2, 3, 1]; it must be [out, in, k, k] of square filters"},
      {[] { batch_norm(ones(2, 3, 4, 4), state(3, 1), {}); }, "batch norm: running_var is Float [1]; it must be [3] on cpu"},
      {[] {
         BatchNormState s = state(3, 3);
         s.running_var = ones(1).expand({3});
         batch_norm(ones(2, 3), s, {});
       },
       "batch norm: running_var is Float [3]; it must be a tensor whose elements share no memory"},
      {[] { batch_norm_relu(ones(2, 3, 4, 4), state(3, 3), {}, ones(3, 1, 1)); },
       "batch norm: shortcut is Float [3, 1, 1]; it must be Float [2, 3, 4, 4] on cpu"},
      {[] { multiply(ones(1, 1), ones(2, 3), ones(3, 4)); }, "product: out is Float [1, 1]; it must be [2, 4] on cpu"},
      {[] { column_sums(ones(2, 3, 4), at::kFloat); }, "column sums: x is Float [2, 3, 4]; it must be [*, *] on cpu"},
      {[q] { sum_repeats(q, 0); },
       "repeated heads: gradient is Float [2, 4, 6, 8]; it must be [batch, heads, tokens, head width], each head 0 times"},
      {[] { scattered_sum(ones(2, 3), 2, {}, "x"); }, "x: x is Float [2, 3]; it must be a tensor that has dim 2"},
      {[] { kSwiglu.value({ones(2)}); }, "activation: 1 inputs; it takes 2"},
      {[] { take_part(ones(), {.segments = {1}, .layer = "l"}); },
       "layer l: part 0 of 1 along dim 0, in segments [1], does not fit a tensor of []"},
  };
}

TEST(TensorChecks, NameTheArgumentAndWhatItMustBe) {
  for (const Refused& refused : refused_calls()) EXPECT_EQ(test::refusal(refused.call), refused.text);
}

void expect_close(const at::Tensor& ours, const at::Tensor& theirs, double tolerance = 1e-5) {
  EXPECT_TRUE(at::allclose(ours.to(at::kDouble), theirs, tolerance, tolerance, /*equal_nan=*/true)) << ours << theirs;
}

/// Keys of -inf: all of the first tile, one in a later tile, or all, for which LibTorch's softmax gives no weights.
TEST(TensorChecks, TilesWithoutAScoreAboveMinusInfinityCount0) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  for (const auto& [begin, end] : {std::pair(0, 64), std::pair(70, 71), std::pair(0, 130)}) {
    at::manual_seed(1);
    const at::Tensor q = at::randn({1, 2, 130, 8}).abs(), v = at::randn({1, 1, 130, 8}), k = at::randn({1, 1, 130, 8});
    k.slice(2, begin, end).select(3, 0).fill_(kNone);
    const at::Tensor own = v.clone().requires_grad_(), exact = v.to(at::kDouble).requires_grad_();
    const at::Tensor y = attention(q, k, own);
    const at::Tensor keys = k.to(at::kDouble).repeat_interleave(2, 1), values = exact.repeat_interleave(2, 1);
    const at::Tensor theirs =
        std::get<0>(at::_scaled_dot_product_attention_math(q.to(at::kDouble), keys, values, {}, 0.0, /*is_causal=*/true));
    expect_close(y, theirs.transpose(1, 2).flatten(2));
    y.square().sum().backward();
    theirs.square().sum().backward();
    expect_close(own.grad(), exact.grad(), 1e-4);
  }
}

/// In sequence, as in a ring of ranks.
TEST(TensorChecks, PiecesWithoutAScoreAboveMinusInfinityAddNothing) {
  at::manual_seed(1);
  const at::Tensor q = at::randn({1, 2, 5, 8}).abs(), k = at::randn({1, 2, 5, 8}), v = at::randn({1, 2, 5, 8});
  const at::Tensor none = at::full({1, 2, 5, 8}, -std::numeric_limits<float>::infinity());
  for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::formula}) {
    const AttentionPiece some = attend(q, k, v, AttentionMask::none, kernel);
    const AttentionPiece whole = attend(q, none, v, AttentionMask::none, kernel);
    expect_close(whole.out, at::zeros({1, 2, 5, 8}, at::kDouble));
    join(whole, attend(q, none, v, AttentionMask::none, kernel));
    join(whole, some);
    join(whole, attend(q, none, v, AttentionMask::none, kernel));
    expect_close(whole.out, some.out.to(at::kDouble));
    expect_close(whole.logsumexp, some.logsumexp.to(at::kDouble));
  }
}

TEST(TensorChecks, NothingAttendsToNothing) {
  for (const auto& sizes : {std::vector<int64_t>{2, 0, 24}, {0, 5, 24}, {2, 5, 0}}) {
    const at::Tensor qkv = at::zeros(sizes).requires_grad_();
    const at::Tensor y = attention(qkv, 2);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({sizes[0], sizes[1], sizes[2] / 3}));
    y.sum().backward();
    EXPECT_EQ(qkv.grad().sizes(), qkv.sizes());
  }
}

TEST(TensorChecks, RowsOfOneDimAndLayersOfNoOutputs) {
  const at::Tensor x = ones(4).requires_grad_(), weight = ones(4).requires_grad_();
  normalise(x, {weight}).sum().backward();
  expect_close(weight.grad(), ones(4).to(at::kDouble));
  for (const auto& [out, in] : {std::pair(0, 4), std::pair(3, 0)}) {
    Parameter& layer = parameter(ones(out, in), true);
    layer.value.requires_grad_();
    const at::Tensor row = ones(2, in).requires_grad_();
    linear(row, layer, nullptr).sum().backward();
    expect_close(row.grad(), at::zeros({2, in}, at::kDouble));
  }
}

/// Every second element of a larger tensor.
at::Tensor strided(const at::Tensor& x) { return at::zeros({2 * x.size(0)}, x.options()).slice(0, 0, {}, 2).copy_(x); }

TEST(TensorChecks, ParametersByStridesAreRead) {
  at::manual_seed(1);
  const at::Tensor weight = at::randn({8}), bias = at::randn({8}), pixels = at::randn({2, 8, 3, 3});
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  for (const bool last : {false, true}) {
    at::Tensor x = last ? pixels.contiguous(at::MemoryFormat::ChannelsLast) : pixels.clone();
    GroupNorm groups(8, 2);
    groups.weight.value = strided(weight).requires_grad_();
    groups.bias.value = strided(bias);
    const at::Tensor y = groups(x);
    expect_close(y, at::group_norm(wide(pixels), 2, wide(weight), wide(bias), 1e-5, false));
    y.sum().backward();
    for (const bool training : {false, true}) {
      const BatchNormState s{strided(weight), strided(bias), strided(weight), strided(weight.abs())};
      const at::Tensor mean = wide(weight).clone(), var = wide(weight.abs()).clone(), in = x.clone().requires_grad_(),
                       exact = wide(pixels).requires_grad_();
      const at::Tensor own = batch_norm(in, s, {.training = training});
      const at::Tensor theirs = at::batch_norm(exact, wide(weight), wide(bias), mean, var, training, 0.1, 1e-5, false);
      expect_close(own, theirs, 1e-4);
      own.pow(3).sum().backward();
      theirs.pow(3).sum().backward();
      expect_close(in.grad(), exact.grad(), 1e-3);
      expect_close(s.running_mean, mean);
      expect_close(s.running_var, var);
    }
  }
  const at::Tensor rows = at::randn({4, 16}).to(at::kBFloat16), matrix = at::randn({8, 16}).to(at::kBFloat16);
  const at::Tensor narrow = bias.to(at::kBFloat16);
  expect_close(multiply_with_bias(rows, matrix, strided(narrow)), at::linear(wide(rows), wide(matrix), wide(narrow)), 5e-2);
}

}  // namespace
}  // namespace weft::tensor_checks_test
