// What a model costs, found by running it on the meta device: no data, no weights, milliseconds for any size of a block. Blocks
// that are alike (HasKind) are run once: time grows with the different ones.
//
// Floating-point operations are counted as they are dispatched (matrix products and convolutions: 2 a multiply-add; the rest is
// not counted); bytes kept for backward are the storages that are still alive after a forward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/cost/cost_options.h"
#include "weft/nn/cost/recorded_group.h"
#include "weft/nn/model.h"

namespace weft {

/// What a block sends while it runs: calls on the groups of its Context, in their order.
struct BlockTraffic {
  std::vector<RecordedCall> forward = {};   ///< of its forward
  std::vector<RecordedCall> backward = {};  ///< of its backward
  std::vector<RecordedCall> input = {};     ///< of backward's part that makes the input's gradient, where it splits
  std::vector<RecordedCall> weight = {};    ///< of the rest
};

/// What one block costs for one micro-batch.
struct MeasuredCost {
  double forward_flops = 0.0;       ///< floating-point operations of its forward
  double backward_flops = 0.0;      ///< those of its backward, and of parts that this computes again
  int64_t saved_bytes = 0;          ///< kept for backward: neither its input, its output nor its parameters
  int64_t output_bytes = 0;         ///< what it hands on
  int64_t passed_bytes = 0;         ///< of that, whole numbers that are an input of its: no memory of their own, no gradient
  bool keeps_output = false;        ///< its graph keeps the rest of what it hands on
  int64_t forward_peak_bytes = 0;   ///< most that its forward holds at a time, output and what is kept included
  int64_t backward_peak_bytes = 0;  ///< the same of backward: what was kept, the output, its gradient and the input's included
  int64_t input_peak_bytes = 0;     ///< the same of backward's part that makes the input's gradient, where it splits
  int64_t weight_peak_bytes = 0;    ///< the same of the rest: what the first part left for it included
  double input_flops = 0.0;         ///< of backward_flops, those of the part that makes the input's gradient, where it splits
  int64_t deferred_bytes = 0;       ///< kept between the two parts, the input excluded
  BlockTraffic traffic = {};        ///< what it sends
};

/// The cost of each block, found by running it forward and backward once; the model's parameters must be on the meta device.
/// `inputs` is a micro-batch of meta tensors. Memory is what tensors take, to the byte; what a kernel needs inside one
/// operation is not seen, but for that of attention on one thread.
/// `outputs`, where given, becomes what the last block hands on.
std::vector<MeasuredCost> measure_cost(Model& model, const Tensors& inputs, const CostOptions& options = {},
                                       Tensors* outputs = nullptr);

/// What the loss of a micro-batch costs.
struct LossCost {
  int64_t peak_bytes = 0;           ///< most that it and its backward hold beside the outputs
  std::vector<RecordedCall> calls;  ///< what both send
};

/// The cost of the loss of outputs [samples, ...]. Meant for tensors on the meta device, where nothing is allocated and there
/// are no values to count; on others it runs for real.
LossCost measure_loss(const Model& model, const Tensors& outputs, const at::Tensor& target, const CostOptions& options = {});

}  // namespace weft
