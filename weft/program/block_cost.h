// What blocks and models cost for one micro-batch: what programs are built from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/program/axis_set.h"

namespace weft {

/// A call that a block makes on other ranks while it runs, in its forward or its backward.
struct InnerCall {
  AxisSet axes = {};        ///< along which ranks meet: cp or tp
  int rounds = 1;           ///< messages one after another
  int64_t wire_bytes = 0;   ///< that each rank sends
  double begins_at = 0.0;   ///< operations of the pass (Instruction::flops) that come before it
  double awaited_at = 0.0;  ///< those that come before it is waited for: it travels beside what lies between
};

/// What a block calls while it runs, in the order in which the calls begin.
struct InnerCalls {
  std::vector<InnerCall> forward = {};   ///< in its forward
  std::vector<InnerCall> backward = {};  ///< in its backward
  std::vector<InnerCall> input = {};     ///< in backward_input, where backward is split
  std::vector<InnerCall> weight = {};    ///< in backward_weight
};

/// What one block costs for one micro-batch. Measured on the meta device by nn/cost/measure_cost.h, or written by hand.
struct BlockCost {
  std::string name;                 ///< for people, and for measured times
  int64_t parameters = 0;           ///< elements that are trained
  int64_t tensors = 0;              ///< parameters and statistics
  int64_t told = 0;                 ///< trained parameters that a step may leave without a gradient
  int64_t numel = 0;                ///< elements of its flat buffer: groups padded to 64 each, statistics included
  double forward_flops = 0.0;       ///< floating-point operations of its forward
  double backward_flops = 0.0;      ///< those of its backward; a forward that runs again is not among them
  int64_t saved_bytes = 0;          ///< activations its backward keeps, its input excluded
  int64_t output_bytes = 0;         ///< what it hands to the next block
  int64_t passed_bytes = 0;         ///< of that, inputs handed on as they are: no memory of their own, and no gradient
  bool keeps_output = false;        ///< the rest is among what its backward keeps
  int64_t forward_peak_bytes = 0;   ///< most that forward holds at a time: nn/cost/measure_cost.h; 0: what stays
  int64_t backward_peak_bytes = 0;  ///< the same of backward
  std::vector<int> uses = {};       ///< other blocks whose weights it reads too (tied weights)
  bool splits = false;              ///< its backward can be split into the input's part and the weights' part
  double input_flops = 0.0;         ///< of backward_flops, those of backward_input
  int64_t deferred_bytes = 0;       ///< what backward_input keeps for backward_weight
  int64_t input_peak_bytes = 0;     ///< most that backward_input holds at a time; 0: as backward
  int64_t weight_peak_bytes = 0;    ///< the same of backward_weight; 0: what it was kept
  int64_t frozen_numel = 0;         ///< elements beside `numel` that have no gradient and never change
  /// Bytes of an element of its gradients that its update needs of all shards, which gather them for it; 0: it needs none.
  int gathered_gradient_bytes = 0;
  InnerCalls calls = {};  ///< what it sends while it runs

  int64_t made_bytes() const { return output_bytes - passed_bytes; }  ///< of what it hands on, what it made; its gradient's
};

/// What a model costs for one micro-batch.
struct ModelCost {
  std::string name;               ///< for people
  std::vector<BlockCost> blocks;  ///< in the order in which they run
  int64_t input_bytes = 0;        ///< one micro-batch as loaded
  int64_t loss_peak_bytes = 0;    ///< most that the loss and its backward hold beside the outputs; 0: the outputs' gradient
  std::vector<InnerCall> loss_calls = {};  ///< what the loss sends
};

}  // namespace weft
