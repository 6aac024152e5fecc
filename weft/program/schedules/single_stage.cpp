#include "weft/program/schedules/single_stage.h"

#include <algorithm>

namespace weft {
namespace {

constexpr int kMicro = 0;

Instruction forward(const ModelCost& model, int block) {
  const BlockCost& cost = model.blocks[block];
  return {.op = Op::forward,
          .first = block,
          .last = block + 1,
          .micro = kMicro,
          .flops = cost.forward_flops,
          .peak = cost.forward_peak_bytes,
          .allocates = cost.saved_bytes + cost.output_bytes};
}

// Its output goes only now: until here it was the next block's input, or the loss's.
Instruction backward(const ModelCost& model, int block) {
  const BlockCost& cost = model.blocks[block];
  const bool is_first = block == 0;
  const int64_t output_and_gradient = 2 * cost.output_bytes;
  return {.op = Op::backward,
          .first = block,
          .last = block + 1,
          .micro = kMicro,
          .flops = cost.backward_flops,
          .peak = std::max<int64_t>(cost.backward_peak_bytes - cost.saved_bytes - output_and_gradient, 0),
          .allocates = is_first ? 0 : model.blocks[block - 1].output_bytes,
          .frees = cost.saved_bytes + output_and_gradient + (is_first ? model.input_bytes : 0)};
}

}  // namespace

InstructionList single_stage(const ModelCost& model) {
  const int num_blocks = static_cast<int>(model.blocks.size());
  InstructionList list;
  list.push_back({.op = Op::load, .micro = kMicro, .allocates = model.input_bytes});
  for (int block = 0; block < num_blocks; ++block) list.push_back(forward(model, block));
  list.push_back(
      {.op = Op::loss, .micro = kMicro, .peak = model.loss_peak_bytes, .allocates = model.blocks.back().output_bytes});
  for (int block = num_blocks - 1; block >= 0; --block) list.push_back(backward(model, block));
  return list;
}

}  // namespace weft
