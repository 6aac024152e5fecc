#include "weft/optim/update_pieces.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace weft {

UpdatePieces::UpdatePieces(FlatModel& model, int count, const PieceOptions& options)
    : model_(model), options_(options), states_(model.num_blocks(), std::vector<at::Tensor>(static_cast<size_t>(count))) {}

void UpdatePieces::visit(int block, Visit visit) {
  const FlatBlock& flat = model_.flat(block);
  for (at::Tensor& state : states_[block]) {
    if (!state.defined()) state = at::zeros_like(flat.master);
  }
  const bool wide = flat.owned_gradients.scalar_type() == at::kFloat;
  for (const GroupRange& group : flat.groups) {
    if (!is_trained(group.group)) continue;
    const GroupRange own = flat.own(group);
    const int64_t all = std::max<int64_t>(own.end - own.begin, 1);
    const int64_t most = wide ? (options_.most > 0 ? options_.most : all) : kPieceElements;
    for (int64_t begin = own.begin; begin < own.end; begin += most) {
      const int64_t end = std::min(begin + most, own.end);
      const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, begin, end - begin); };
      UpdatePiece piece{.weights = part(flat.master),
                        .gradients = part(flat.owned_gradients).to(at::kFloat),
                        .state = {},
                        .decay = group.group == ParamGroup::decay,
                        .split = group.split};
      for (const at::Tensor& state : states_[block]) piece.state.push_back(part(state));
      if (options_.tensors) piece.tensors = tensors_of(block, begin, end);
      visit(piece);
    }
  }
}

void UpdatePieces::update(int block, Visit visit) {
  this->visit(block, visit);
  model_.copy_master_to_shard(block);
}

void prepare_gradients(UpdatePiece& piece, double divisor, double decay) {
  if (divisor != 1.0) piece.gradients.div_(divisor);
  if (decay != 0.0) piece.gradients.add_(piece.weights, decay);
}

/// Of elements [begin, end) of the block's shard.
std::vector<TensorPart> UpdatePieces::tensors_of(int block, int64_t begin, int64_t end) const {
  const FlatBlock& flat = model_.flat(block);
  std::vector<TensorPart> parts;
  for (const int index : flat.params) {
    const Param& param = model_.params()[index];
    if (!is_trained(param.group)) continue;
    const GroupRange own = flat.own({.group = param.group, .begin = param.offset, .end = param.offset + param.numel});
    const TensorPart part{index, std::max(own.begin, begin) - begin, std::min(own.end, end) - begin};
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

}  // namespace weft
