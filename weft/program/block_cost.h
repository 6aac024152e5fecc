// Costs of blocks and models for one micro-batch, from which programs are built.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/operator_work.h"
#include "weft/program/axis_set.h"

namespace weft {

/// A collective that a block issues while it runs, in forward or backward.
struct InnerCall {
  AxisSet axes = {};                                  ///< axes of the ranks that take part: cp or tp
  int rounds = 1;                                     ///< sequential messages
  int64_t wire_bytes = 0;                             ///< sent by each rank
  double begins_at = 0.0;                             ///< operations of the pass (Instruction::flops) before it
  double waited_at = 0.0;                             ///< operations before its wait: it overlaps those in between
  bool operator==(const InnerCall&) const = default;  ///< member by member
};

/// Collectives that a block issues while it runs, in order.
struct InnerCalls {
  std::vector<InnerCall> forward = {};                 ///< calls in its forward
  std::vector<InnerCall> backward = {};                ///< calls in its backward
  std::vector<InnerCall> input = {};                   ///< calls in backward_input, if backward is split
  std::vector<InnerCall> weight = {};                  ///< calls in backward_weight
  bool operator==(const InnerCalls&) const = default;  ///< member by member
};

/// Cost of one block for one micro-batch. Measured on the meta device by nn/cost/measure_cost.h, or written by hand.
struct BlockCost {
  std::string name;                 ///< name in reports, and key of measured times
  int64_t parameters = 0;           ///< trained elements
  int64_t tensors = 0;              ///< parameters and statistics
  int64_t partial_numel = 0;        ///< trained elements whose gradients are partial (Program::partial_gradients)
  int64_t flagged = 0;              ///< trained parameters that a step may leave without a gradient
  int64_t numel = 0;                ///< elements of its flat buffer: groups padded to 64 each, statistics included
  double forward_flops = 0.0;       ///< floating-point operations of its forward
  double backward_flops = 0.0;      ///< operations of its backward, without a recompute
  int64_t saved_bytes = 0;          ///< activations kept for its backward, without its input
  int64_t output_bytes = 0;         ///< bytes handed to the next block
  int64_t passed_bytes = 0;         ///< part of output_bytes that is inputs passed on: no further memory, and no gradient
  bool keeps_output = false;        ///< its backward keeps made_bytes() of the output
  int64_t forward_peak_bytes = 0;   ///< peak of forward (nn/cost/measure_cost.h); 0: the bytes that stay
  int64_t backward_peak_bytes = 0;  ///< peak of backward
  std::vector<int> uses = {};       ///< other blocks whose weights it reads too (tied weights)
  bool splits = false;              ///< its backward can be split into the input's part and the weights' part
  double input_flops = 0.0;         ///< part of backward_flops in backward_input
  int64_t deferred_bytes = 0;       ///< bytes that backward_input keeps for backward_weight
  int64_t input_peak_bytes = 0;     ///< peak of backward_input; 0: same as backward
  int64_t weight_peak_bytes = 0;    ///< peak of backward_weight; 0: deferred_bytes
  int64_t frozen_numel = 0;         ///< frozen elements (no gradient, never changed), not in `numel`
  int states = 2;                   ///< float32 numbers of optimizer state per element, an average included; 2: Adam's
  int64_t part_state = 0;           ///< further numbers of state, over all shards
  /// Bytes per element of the gradients that its update gathers from all shards; 0: it gathers nothing.
  int gathered_gradient_bytes = 0;
  InnerCalls calls = {};           ///< collectives while it runs
  SharedOperators operators = {};  ///< what its passes launch; null: only operations and bytes are known

  int64_t made_bytes() const { return output_bytes - passed_bytes; }  ///< new part of the output; bytes of its gradient
};

/// Cost of a model for one micro-batch.
struct ModelCost {
  std::string name;                        ///< name in reports
  std::vector<BlockCost> blocks;           ///< blocks in the order in which they run
  int64_t input_bytes = 0;                 ///< one micro-batch as loaded, in the types that blocks take
  int64_t upload_bytes = 0;                ///< one as it is copied to a device, in the data's types; 0: input_bytes
  int64_t loss_peak_bytes = 0;             ///< peak of the loss and its backward besides the outputs; 0: the outputs' gradient
  std::vector<InnerCall> loss_calls = {};  ///< collectives of the loss
  bool head_takes_targets = false;         ///< the last block makes the losses (BlockLayout::loss_chunk)
  PassOperators loss_operators = {};       ///< what the loss and its backward launch; empty: not counted
};

}  // namespace weft
