// The mathematics of layers with a weight, and perhaps a bias, that add to the gradients of both themselves. What runs them, on
// one rank or several, is apply() of nn/tensor_parallel/layer_over_ranks.h.
#pragma once

#include <optional>

#include "weft/nn/block.h"

namespace weft {

/// The mathematics of such a layer, without state and without autograd. x is its input, dy the gradient of its output.
struct WeightedLayer {
  const char* name;  ///< that errors have: "linear layer"
  /// The layer's output.
  at::Tensor (*forward)(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias);
  at::Tensor (*input_gradient)(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight);  ///< like x
  /// Adds the gradients of both as add_gradient() does; `bias` null: there is none.
  void (*add_gradients)(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x);
  /// out [n, columns] = the product of rows [n, in] with the weight's transpose, or of those [n, out] with the weight (`back`),
  /// or that added to out; null: the layer is no product of rows.
  void (*multiply)(const at::Tensor& out, const at::Tensor& rows, const at::Tensor& weight, bool back, bool adds) = nullptr;
};

/// A linear layer's parameters.
struct LinearParameters {
  Parameter* weight;  ///< [out, in]
  Parameter* bias;    ///< [out]; null: none
};

/// A norm's parameters.
struct NormParameters {
  Parameter* weight;  ///< [width]
  Parameter* bias;    ///< [width]; null: RMS norm
  double eps;         ///< added to the variance, or the mean square
};

/// Whether a layer adds to the gradients of these parameters itself: both are bound to flat buffers, and neither is frozen.
bool gradients_have_places(const Parameter& weight, const Parameter* bias);

/// The bias as LibTorch's operators take it; null: none.
std::optional<at::Tensor> value_of(const Parameter* bias);

}  // namespace weft
