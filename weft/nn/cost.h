// What a model costs, found by running it on the meta device: no data, no weights, milliseconds for any size of a block. Blocks
// that are alike (HasKind) are run once: time grows with the different ones.
//
// Floating-point operations are counted as they are dispatched (matrix products and convolutions: 2 a multiply-add; the rest is
// not counted); bytes kept for backward are the storages that are still alive after a forward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/model.h"

namespace weft {

/// A second base of blocks that can tell which others cost the same.
class HasKind {
 public:
  virtual ~HasKind() = default;
  /// Blocks of one C++ type that give the same text run the same operations, forward and backward, on inputs and parameters of
  /// the same shapes, strides and types; what they are called and the values they hold may differ.
  virtual std::string kind() const = 0;
};

/// What one block costs for one micro-batch.
struct MeasuredCost {
  double forward_flops = 0.0;       ///< floating-point operations of its forward
  double backward_flops = 0.0;      ///< those of its backward, and of parts that this computes again
  int64_t saved_bytes = 0;          ///< kept for backward: neither its input, its output nor its parameters
  int64_t output_bytes = 0;         ///< what it hands on
  bool keeps_output = false;        ///< its graph keeps what it hands on
  int64_t forward_peak_bytes = 0;   ///< most that its forward holds at a time, output and what is kept included
  int64_t backward_peak_bytes = 0;  ///< the same of backward: what was kept, the output, its gradient and the input's included
  double input_flops = 0.0;         ///< of backward_flops, those of the part that makes the input's gradient, where it splits
  int64_t deferred_bytes = 0;       ///< kept between the two parts, the input excluded
};

/// How a model is run to be measured.
struct CostOptions {
  at::ScalarType weight_dtype = at::kFloat;    ///< of parameters and activations
  at::ScalarType gradient_dtype = at::kFloat;  ///< of the parameters' gradients
  bool recompute_parts = false;                ///< Context::recompute_parts
};

/// The cost of each block, found by running it forward and backward once; the model's parameters must be on the meta device.
/// `inputs` is a micro-batch of meta tensors. Memory is what tensors take, to the byte; what a kernel needs inside one
/// operation is not seen.
std::vector<MeasuredCost> measure_cost(Model& model, const Tensors& inputs, const CostOptions& options = {});

/// Most bytes that the loss of a micro-batch and its backward hold beside the outputs [samples, ...] it gets. Meant for tensors
/// on the meta device, where nothing is allocated and there are no values to count; on others it runs for real.
int64_t measure_loss_peak(const Model& model, const Tensors& outputs, const at::Tensor& target);

}  // namespace weft
