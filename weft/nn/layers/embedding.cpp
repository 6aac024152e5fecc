#include "weft/nn/layers/embedding.h"

#include <ATen/ops/embedding.h>
#include <fmt/core.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/nn/id_checks.h"
#include "weft/nn/sequence/zigzag.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/reproducible_parts.h"
#include "weft/nn/tensor_parallel/whole_value.h"

namespace weft {

namespace {

/// Whole weights. `are_known`: the ids are in range.
at::Tensor rows_of(const at::Tensor& given, const Parameter& weight, const Context& context, bool are_known) {
  const TensorChecks check("embedding");
  check.dense("weight", weight.value);
  check.sizes("weight", weight.value, {TensorChecks::kAny, TensorChecks::kAny}, weight.value);
  check.ids("ids", given, weight.value);
  const at::Tensor own = context.layout.sequence_parallel ? own_part(given, given.dim() - 1, context.tp, "ids") : given;
  return at::embedding(whole_value(weight, context), are_known ? own : checked_ids("embedding: id", own, weight.value.size(0)));
}

}  // namespace

at::Tensor embedding(const std::vector<ShardRange>& ids, const Parameter& weight, const Context& context) {
  const at::Tensor all = shard_positions(ids, weight.value.device());
  const auto is_known = [&](const ShardRange& range) { return range.begin >= 0 && range.end <= weight.value.size(0); };
  if (weight.split || !std::all_of(ids.begin(), ids.end(), is_known)) return embedding(all, weight, context);
  return rows_of(all, weight, context, true);
}

/// Rows of other ranks' entries are zero, so the sum over ranks has the nonzero row's bits. An invalid id belongs to no
/// rank and must not silently give zeros: it is out of range on every rank, as on one device.
at::Tensor embedding(const at::Tensor& given, const Parameter& weight, const Context& context) {
  if (!weight.split) return rows_of(given, weight, context, false);
  const TensorChecks check("embedding");
  check.dense("weight", weight.value);
  const Split& split = *weight.split;
  check_split_over(split, context.tp);
  if (split.dim != 0) {
    throw InputError(
        fmt::format("layer {}: an embedding cannot be split by rows; split its entries with a vocabulary rule", split.layer));
  }
  if (split.pieces > 0) return embedding_of_pieces(given, weight, context);
  check.sizes("weight", weight.value, {TensorChecks::kAny, TensorChecks::kAny}, weight.value);
  check.ids("ids", given, weight.value);
  const at::Tensor ids = checked_ids("embedding: id", given, split.segments.front());
  const int64_t entries = weight.value.size(0), first = entries * split.part;
  check.that(entries == part_of_segment(split.segments.front(), split.parts), "weight", weight.value,
             fmt::format("the part of {} entries over {} ranks", split.segments.front(), split.parts));
  const at::Tensor elsewhere = ids.lt(first).bitwise_or_(ids.ge(first + entries));
  const at::Tensor nowhere = ids.lt(0).bitwise_or_(ids.ge(split.segments.front()));
  const at::Tensor index = ids.sub(first).masked_fill_(elsewhere, 0).masked_fill_(nowhere, entries);
  const at::Tensor rows = at::embedding(weight.value, index);
  const at::Tensor own = rows.masked_fill(elsewhere.unsqueeze(-1), 0);
  const std::string what = "output of " + split.layer;
  return context.layout.sequence_parallel ? sum_scatter(own, 1, context.tp, what) : sum_over(own, context.tp, what);
}

}  // namespace weft
