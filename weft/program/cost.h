// What a step costs a rank, read off its list: floating-point operations, bytes on the wire, live bytes at the peak.
#pragma once

#include <cstdint>

#include "weft/program/program.h"

namespace weft {

/// Bytes a rank sends in an all-reduce of `bytes` among `ranks`: 2 (n-1)/n of them.
int64_t all_reduce_bytes(int64_t bytes, int ranks);
/// Bytes a rank sends in a reduce-scatter or an all-gather whose whole is `bytes`: (n-1)/n of them.
int64_t shard_bytes(int64_t bytes, int ranks);

/// What bytes on the wire are of.
enum class WireKind {
  gradients,  ///< to reduce them, and to gather them for updates
  weights,    ///< to gather them
  transfers,  ///< activations and their gradients, to other stages
  losses,     ///< the norm's too
  inner,      ///< inside blocks and the loss: those of tensor and context parallelism
};
/// What an instruction's bytes are of.
WireKind wire_kind(const Instruction& instruction);

/// What a step costs a rank.
struct StepCost {
  double forward_flops = 0.0;         ///< floating-point operations, recompute included
  double backward_flops = 0.0;        ///< those of backwards, whole or in parts
  int64_t gradient_wire_bytes = 0;    ///< sent to reduce gradients, and to gather them for updates
  int64_t weight_wire_bytes = 0;      ///< sent to gather weights
  int64_t transfer_wire_bytes = 0;    ///< activations and their gradients, to other stages
  int64_t loss_wire_bytes = 0;        ///< the norm's too
  int64_t inner_wire_bytes = 0;       ///< inside blocks and the loss: those of tensor and context parallelism
  int num_reduces = 0;                ///< gradient collectives
  int num_gathers = 0;                ///< of weights
  int64_t peak_activation_bytes = 0;  ///< micro-batches, activations and their gradients, what backward keeps
  int64_t peak_partial_bytes = 0;     ///< partial gradient sums of finished slots

  double flops() const { return forward_flops + backward_flops; }  ///< all operations
  /// All bytes that the rank sends.
  int64_t wire_bytes() const {
    return gradient_wire_bytes + weight_wire_bytes + transfer_wire_bytes + loss_wire_bytes + inner_wire_bytes;
  }
};

/// The cost of a rank's list. Peaks count what an instruction allocates before it frees anything, in list order.
StepCost step_cost(const InstructionList& list);

}  // namespace weft
