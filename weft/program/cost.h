// Cost of a step per rank, read off its list: floating-point operations, bytes on the wire, live bytes at the peak.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Bytes that a rank sends in an all-reduce of `bytes` among n = `ranks`: 2 (n-1)/n of them.
int64_t all_reduce_bytes(int64_t bytes, int ranks);
/// Bytes that a rank sends in a reduce-scatter or all-gather of `bytes` in total: (n-1)/n of them.
int64_t shard_bytes(int64_t bytes, int ranks);

/// Kinds of bytes on the wire.
enum class WireKind {
  gradients,  ///< gradient reductions, and gradient gathers for updates
  weights,    ///< weight gathers
  transfers,  ///< activations and their gradients, to other stages
  losses,     ///< losses and norms
  inner,      ///< collectives inside blocks and the loss: tensor and context parallelism
};
/// Kind of an instruction's bytes.
WireKind wire_kind(const Instruction& instruction);

/// Cost of a step for one rank.
struct StepCost {
  double forward_flops = 0.0;         ///< floating-point operations, recompute included
  double backward_flops = 0.0;        ///< operations of backward passes, whole or split
  int64_t gradient_wire_bytes = 0;    ///< sent to reduce gradients, and to gather them for updates
  int64_t weight_wire_bytes = 0;      ///< sent to gather weights
  int64_t transfer_wire_bytes = 0;    ///< activations and their gradients sent to other stages
  int64_t loss_wire_bytes = 0;        ///< sent to sum losses and norms
  int64_t inner_wire_bytes = 0;       ///< sent inside blocks and the loss: tensor and context parallelism
  int num_reduces = 0;                ///< number of gradient collectives
  int num_gathers = 0;                ///< number of weight gathers
  int64_t peak_activation_bytes = 0;  ///< micro-batches, activations and their gradients, tensors kept for backward
  int64_t peak_partial_bytes = 0;     ///< partial gradient sums of finished slots

  double flops() const { return forward_flops + backward_flops; }  ///< all operations
  /// All bytes that the rank sends.
  int64_t wire_bytes() const {
    return gradient_wire_bytes + weight_wire_bytes + transfer_wire_bytes + loss_wire_bytes + inner_wire_bytes;
  }
};

/// Cost of a rank's list. Peaks count an instruction's allocations before its frees, in list order. Where copies run beside
/// compute (`offload`), an offloaded input is held until the next move of one. The activations' peak includes what `beside`
/// says is held beside them, by instruction.
StepCost step_cost(const InstructionList& list, const OffloadOptions& offload = {}, const std::vector<int64_t>& beside = {});

}  // namespace weft
