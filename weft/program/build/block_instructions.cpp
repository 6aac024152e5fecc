#include "weft/program/build/block_instructions.h"

#include <algorithm>

namespace weft {
namespace {

Instruction on_block(Op op, int block, int micro) { return {.op = op, .first = block, .last = block + 1, .micro = micro}; }

}  // namespace

Instruction load_inputs(const ModelCost& model, int micro) {
  return {.op = Op::load, .micro = micro, .allocates = model.input_bytes};
}

Instruction loss_of(const ModelCost& model, int micro) {
  return {.op = Op::loss, .micro = micro, .peak = model.loss_peak_bytes, .allocates = model.blocks.back().output_bytes};
}

Instruction forward_of(const ModelCost& model, int block, int micro) {
  const BlockCost& cost = model.blocks[block];
  Instruction x = on_block(Op::forward, block, micro);
  x.flops = cost.forward_flops;
  x.peak = cost.forward_peak_bytes;
  x.allocates = cost.saved_bytes + cost.made_bytes();
  return x;
}

// The block's output is freed only now: until here it was the next block's input, the sent tensor, or the loss's input.
Instruction backward_of(const ModelCost& model, Op op, int block, int micro, bool input_received) {
  const BlockCost& cost = model.blocks[block];
  Instruction x = on_block(op, block, micro);
  if (op == Op::backward_weight) {
    x.flops = cost.backward_flops - cost.input_flops;
    x.peak = std::max<int64_t>(cost.weight_peak_bytes - cost.deferred_bytes, 0);
    x.frees = cost.deferred_bytes;
    return x;
  }
  const int64_t input_bytes = block == 0 ? model.input_bytes : model.blocks[block - 1].output_bytes;
  const int64_t input_gradient_bytes = block == 0 ? 0 : model.blocks[block - 1].made_bytes();
  const int64_t output_and_gradient = 2 * cost.made_bytes();
  const bool is_part = op == Op::backward_input;
  x.flops = is_part ? cost.input_flops : cost.backward_flops;
  const int64_t peak_bytes = is_part && cost.input_peak_bytes > 0 ? cost.input_peak_bytes : cost.backward_peak_bytes;
  x.peak = std::max<int64_t>(peak_bytes - cost.saved_bytes - output_and_gradient, 0);
  x.allocates = input_gradient_bytes + (is_part ? cost.deferred_bytes : 0);
  x.frees = cost.saved_bytes + output_and_gradient + (block == 0 || input_received ? input_bytes : 0);
  return x;
}

Instruction transfer_of(const ModelCost& model, Op op, Payload what, int block, int micro, int peer) {
  const BlockCost& cost = model.blocks[block];
  const int64_t bytes = what == Payload::gradient ? cost.made_bytes() : cost.output_bytes;
  Instruction x = on_block(op, block, micro);
  x.lane = Lane::comm;
  x.what = what;
  x.peer = peer;
  if (op == Op::send) x.wire_bytes = bytes;
  if (op == Op::receive) x.allocates = bytes;
  if (op == Op::send && what == Payload::gradient) x.frees = bytes;
  return x;
}

}  // namespace weft
