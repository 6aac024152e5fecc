#include "weft/nn/tensor_parallel/reproducible_parts.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <fmt/core.h>

#include <numeric>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/id_checks.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/layer_over_ranks.h"

namespace weft {

namespace {

/// [pieces x batch, ..., n] as [pieces, rows, n].
at::Tensor in_pieces(const at::Tensor& x, int64_t pieces) {
  const at::Tensor rows = as_rows(x);
  return rows.view({pieces, rows.size(0) / pieces, rows.size(1)});
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  multiply(out, a, b);
  return out;
}

/// [..., n] as [pieces, rows, n], the same for each piece.
at::Tensor for_pieces(const at::Tensor& x, int64_t pieces) {
  const at::Tensor flat = as_rows(x);
  return flat.unsqueeze(0).expand({pieces, flat.size(0), flat.size(1)});
}

/// Sizes of `x` with the first and last replaced.
std::vector<int64_t> sizes_with(const at::Tensor& x, int64_t first, int64_t last) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.front() = first;
  sizes.back() = last;
  return sizes;
}

/// Places of the pieces' gradients, and whether they are empty: the first backward overwrites.
struct Places {
  at::Tensor gradient;
  bool empty = false;
};

Places places_of(Parameter& parameter) {
  at::Tensor& gradient = parameter.value.mutable_grad();
  const bool empty = !gradient.defined();
  if (empty) gradient = parameter.gradient;
  return {gradient, empty};
}

/// Adds each piece's gradient: dy [pieces, rows, out], x [pieces, rows, in].
void add_piece_weights(Parameter& weight, const at::Tensor& dy, const at::Tensor& x) {
  if (!weight.gradient.defined()) return;  // frozen
  const Places places = places_of(weight);
  for (int64_t piece = 0; piece < weight.value.size(0); ++piece) {
    const at::Tensor place = places.gradient[piece], left = dy[piece].t();
    if (place.scalar_type() != left.scalar_type()) {
      const at::Tensor gradient = at::mm(left, x[piece]);
      places.empty ? place.copy_(gradient) : place.add_(gradient);
    } else {
      places.empty ? multiply(place, left, x[piece]) : multiply_add(place, left, x[piece]);
    }
  }
}

void add_piece_biases(Parameter& bias, const at::Tensor& dy) {
  if (!bias.gradient.defined()) return;  // frozen
  const Places places = places_of(bias);
  for (int64_t piece = 0; piece < dy.size(0); ++piece) {
    const at::Tensor place = places.gradient[piece], gradient = dy[piece].sum(0);
    places.empty ? place.copy_(gradient) : place.add_(gradient);
  }
}

/// y of piece p = x times its transposed weight [out, in], plus its bias.
at::Tensor columns(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  const int64_t pieces = weight.size(0), out = weight.size(1);
  const at::Tensor from = as_rows(x);
  const at::Tensor y = at::empty({pieces, from.size(0), out}, x.options());
  for (int64_t piece = 0; piece < pieces; ++piece) {
    if (bias) y[piece].copy_((*bias)[piece]);
    bias ? multiply_add(y[piece], from, weight[piece].t()) : multiply(y[piece], from, weight[piece].t());
  }
  return y.view(sizes_with(x, pieces * x.size(0), out));
}

at::Tensor columns_input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor of_pieces = in_pieces(dy, weight.size(0));
  return tree_sum(weight.size(0), [&](int64_t piece) { return product(of_pieces[piece], weight[piece]); }).view(x.sizes());
}

void add_columns_gradients(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x) {
  const at::Tensor of_pieces = in_pieces(dy, weight.value.size(0));
  add_piece_weights(weight, of_pieces, for_pieces(x, of_pieces.size(0)));
  if (bias) add_piece_biases(*bias, of_pieces);
}

constexpr WeightedLayer kColumns = {.name = "layer in pieces",
                                    .forward = columns,
                                    .input_gradient = columns_input_gradient,
                                    .add_gradients = add_columns_gradients};

/// The sum over p of x of piece p times its transposed weight [out, in]. Not a view, as the bias is added in place.
at::Tensor sum_of_rows(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& /*bias*/) {
  const int64_t pieces = weight.size(0);
  const at::Tensor from = in_pieces(x, pieces);
  const at::Tensor sum = tree_sum(pieces, [&](int64_t piece) { return product(from[piece], weight[piece].t()); });
  return sum.view(sizes_with(x, x.size(0) / pieces, weight.size(1))).variable_data();
}

at::Tensor rows_input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor from = as_rows(dy);
  const at::Tensor dx = at::empty({weight.size(0), from.size(0), weight.size(2)}, dy.options());
  for (int64_t piece = 0; piece < weight.size(0); ++piece) multiply(dx[piece], from, weight[piece]);
  return dx.view(x.sizes());
}

void add_rows_gradients(Parameter& weight, Parameter* /*bias*/, const at::Tensor& dy, const at::Tensor& x) {
  const int64_t pieces = weight.value.size(0);
  add_piece_weights(weight, for_pieces(dy, pieces), in_pieces(x, pieces));
}

constexpr WeightedLayer kRows = {.name = "layer in pieces",
                                 .forward = sum_of_rows,
                                 .input_gradient = rows_input_gradient,
                                 .add_gradients = add_rows_gradients};

/// Checks rows [batch, ..., in] for a weight [pieces, out, in], and a bias [pieces, out] or [out].
void check(const LayerInput& x, const Parameter& weight, const Parameter* bias, bool by_columns) {
  constexpr int64_t kAny = TensorChecks::kAny;
  const TensorChecks tensors("layer in pieces");
  if (!weight.split || weight.split->pieces < 1) throw InputError("layer in pieces: its weight has no split into pieces");
  if (x.tensors.empty()) throw InputError("layer in pieces: no input tensor");
  for (const at::Tensor& input : x.tensors) tensors.floats("x", input, 2);
  const int64_t pieces = weight.split->pieces;
  tensors.floating("weight", weight.value, {pieces, kAny, by_columns ? x.sizes().back() : kAny}, x.tensors.front());
  const std::vector<int64_t> of_bias =
      by_columns ? std::vector<int64_t>{pieces, weight.value.size(1)} : std::vector<int64_t>{weight.value.size(1)};
  if (bias) tensors.floating("bias", bias->value, of_bias, x.tensors.front());
  const auto has_no_place = [](const Parameter& x) { return x.value.requires_grad() && !x.gradient.defined(); };
  if (!has_no_place(weight) && !(bias && has_no_place(*bias))) return;
  throw InputError(fmt::format("layer {}: it is in pieces, but its weights have no gradient buffers; bind its model first",
                               weight.split->layer));
}

/// Checks pieces of a layer's activations, [pieces, rows, width] in total.
void check_vectors(int64_t rows, int64_t width, const Split& split, const Context& context) {
  if (!context.training || rows * width % kVectorElements == 0) return;
  const int64_t unit = kVectorElements / std::gcd(kVectorElements, width);
  throw InputError(
      fmt::format("layer {}: run.reproducible_tp makes pieces of {} rows of {}, which do not fill whole vectors; use "
                  "micro-batches with a multiple of {} tokens in total",
                  split.layer, rows, width, unit));
}

/// This rank's pieces of whole rows of x.
LayerInput pieces_of_rows(const LayerInput& input, const Split& split, int64_t width, const Context& context) {
  if (input.sizes().back() == width) return input;
  const at::Tensor x = input.value();
  if (x.size(-1) != split.segments.front()) {
    throw InputError(
        fmt::format("layer {}: its input has rows of {}; split by rows over {} parts, it takes its pieces of {}, "
                    "or all {}",
                    split.layer, x.size(-1), split.parts * split.pieces, width, split.segments.front()));
  }
  const at::Tensor own = own_part(x, x.dim() - 1, context.tp, "input of " + split.layer);
  return own.unflatten(-1, {split.pieces, width}).movedim(-2, 0).flatten(0, 1);
}

/// [pieces x batch, ..., n] to [batch, ..., pieces x n].
at::Tensor joined_columns(const at::Tensor& y, int64_t pieces) {
  return y.unflatten(0, {pieces, y.size(0) / pieces}).movedim(0, -2).flatten(-2);
}

}  // namespace

at::Tensor columns_of_pieces(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context) {
  check(x, weight, bias, true);
  const Split& split = *weight.split;
  check_vectors(as_rows(x).size(0), weight.value.size(1), split, context);
  const at::Tensor y = apply({.mathematics = kColumns,
                              .layers = {{&weight, bias}},
                              .entry = LayerEntry::copied,
                              .group = context.tp,
                              .input = "input of " + split.layer},
                             x)
                           .front();
  if (!split.joined) return y;
  const at::Tensor own = joined_columns(y, split.pieces);
  return join_over(own, own.dim() - 1, context.tp, "output of " + split.layer).narrow(-1, 0, split.segments.front());
}

at::Tensor rows_of_pieces(const LayerInput& x, Parameter& weight, Parameter* bias, const Context& context) {
  check(x, weight, bias, false);
  const Split& split = *weight.split;
  const int64_t width = weight.value.size(2);
  const LayerInput own = pieces_of_rows(x, split, width, context);
  TensorChecks("layer in pieces")
      .that(own.sizes().front() % split.pieces == 0, "x", own.tensors.front(),
            fmt::format("[{} x batch, ..., {}]", split.pieces, width));
  check_vectors(as_rows(own.tensors.front()).size(0) / split.pieces, width, split, context);
  at::Tensor y = apply({.mathematics = kRows,
                        .layers = {{&weight, nullptr}},
                        .exit = LayerExit::summed,
                        .group = context.tp,
                        .output = "output of " + split.layer},
                       own)
                     .front();
  return bias ? y.add_(bias->value) : y;
}

/// Rows of other pieces' entries are zero, so sums are exact. LibTorch refuses an invalid id, as piece 0 looks it up behind its
/// last row.
at::Tensor embedding_of_pieces(const at::Tensor& given, const Parameter& weight, const Context& context) {
  if (!weight.split || weight.split->pieces < 1) throw InputError("layer in pieces: its weight has no split into pieces");
  const Split& split = *weight.split;
  const TensorChecks check("embedding in pieces");
  check.sizes("weight", weight.value, {split.pieces, TensorChecks::kAny, TensorChecks::kAny}, weight.value);
  check.ids("ids", given, weight.value.flatten(0, 1));
  check.that(weight.value.size(1) == part_of_segment(split.segments.front(), split.parts * split.pieces), "weight",
             weight.value, fmt::format("pieces of {} entries", split.segments.front()));
  const std::vector<at::Tensor> pieces = weight.value.unbind(0);
  const at::Tensor ids = checked_ids("embedding: id", given, split.segments.front());
  const at::Tensor nowhere = ids.lt(0).bitwise_or_(ids.ge(split.segments.front()));
  const at::Tensor own = tree_sum(split.pieces, [&](int64_t piece) {
    const int64_t entries = weight.value.size(1), first = entries * (int64_t{split.part} * split.pieces + piece);
    const at::Tensor elsewhere = ids.lt(first).bitwise_or_(ids.ge(first + entries));
    at::Tensor index = ids.sub(first).masked_fill_(elsewhere, 0);
    if (piece == 0) index = index.masked_fill_(nowhere, entries);
    return at::embedding(pieces[piece], index).masked_fill(elsewhere.unsqueeze(-1), 0);
  });
  return sum_over(own, context.tp, "output of " + split.layer);
}

}  // namespace weft
