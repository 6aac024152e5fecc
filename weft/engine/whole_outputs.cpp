#include "weft/engine/whole_outputs.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/nn/sequence/zigzag.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"

namespace weft {

namespace {

constexpr const char* kWhat = "predictions";

/// Split of the block's last layer with a weight; null if it has no split layer.
const Split* last_split(const FlatModel& model, int block) {
  const Split* last = nullptr;
  for (const Param& param : model.params()) {
    if (param.block == block && param.split && param.shape.size() >= 2) last = &*param.split;
  }
  return last;
}

/// Split of the layer that makes the model's outputs; with tied weights it belongs to another block.
const Split* split_of_outputs(const FlatModel& model) {
  if (const std::optional<std::string>& layer = model.model().output_layer) {
    const auto& params = model.params();
    const auto found = std::find_if(params.begin(), params.end(), [&](const Param& param) {
      return !layer->empty() && param.split && param.split->layer == *layer && param.shape.size() >= 2;
    });
    return found == params.end() ? nullptr : &*found->split;
  }
  const int block = model.num_blocks() - 1;
  const Split* split = last_split(model, block);
  const std::vector<int>& uses = model.model().blocks[block].uses;
  for (size_t i = 0; split == nullptr && i < uses.size(); ++i) split = last_split(model, uses[i]);
  return split;
}

/// Joins [pieces x samples, ..., classes of a piece] of each rank into [samples, ..., classes].
at::Tensor with_all_classes(const at::Tensor& part, const Split& split, int64_t samples, const Group& tp) {
  const int64_t classes = split.segments.front(), pieces = std::max(1, split.pieces);
  const bool is_part = part.dim() >= 2 && part.size(-1) != classes && part.size(0) == pieces * samples &&
                       part.size(-1) == ceil_divide(classes, split.parts * pieces);
  if (!is_part) return part;
  at::Tensor own = part;
  if (pieces > 1) own = own.unflatten(0, {pieces, samples}).movedim(0, -2).flatten(-2);
  const at::Tensor padded = gathered(own.contiguous(), own.dim() - 1, tp, kWhat);
  return padded.narrow(-1, 0, classes).contiguous();
}

at::Tensor with_all_tokens(const at::Tensor& own, const Group& cp) {
  TensorChecks(kWhat).that(own.dim() >= 2, "output", own,
                           fmt::format("[samples, tokens, ...], as the {} ranks of cp share the tokens", cp.size()));
  const at::Tensor by_rank = gathered(own.contiguous(), 1, cp, kWhat);
  std::vector<at::Tensor> places;
  places.reserve(static_cast<size_t>(cp.size()));
  for (int rank = 0; rank < cp.size(); ++rank)
    places.push_back(shard_positions(zigzag(by_rank.size(1), cp.size(), rank), own.device()));
  const at::Tensor whole = at::empty_like(by_rank);
  whole.index_copy_(1, at::cat(places), by_rank);
  return whole;
}

}  // namespace

Tensors whole_outputs(const FlatModel& model, Tensors outputs, int64_t samples, const Context& context) {
  const Split* split = model.model().loss.takes_parts() ? split_of_outputs(model) : nullptr;
  const bool by_columns = split != nullptr && split->dim == 0 && !split->joined && split->segments.size() == 1;
  if (by_columns && !outputs.empty()) outputs.front() = with_all_classes(outputs.front(), *split, samples, context.tp);
  if (context.cp.size() == 1) return outputs;
  for (at::Tensor& output : outputs) output = with_all_tokens(output, context.cp);
  return outputs;
}

}  // namespace weft
