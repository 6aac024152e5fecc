// The mathematics of layers that have a weight, and optionally a bias, and add to their gradients themselves. apply()
// (nn/tensor_parallel/layer_over_ranks.h) runs such layers on one rank or several.
#pragma once

#include <optional>

#include "weft/nn/block.h"

namespace weft {

/// The mathematics of such a layer, without state or autograd. x is its input, dy the gradient of its output.
struct WeightedLayer {
  const char* name;  ///< used in errors: "linear layer"
  /// Returns the layer's output.
  at::Tensor (*forward)(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias);
  at::Tensor (*input_gradient)(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight);  ///< like x
  /// Adds the gradients of weight and bias as add_gradient() does; `bias` null: no bias.
  void (*add_gradients)(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x);
  /// Computes out [n, columns] = rows [n, in] times the transposed weight or, with `back`, rows [n, out] times the weight; with
  /// `adds`, adds to out instead. Null: the layer is not a product of rows.
  void (*multiply)(const at::Tensor& out, const at::Tensor& rows, const at::Tensor& weight, bool back, bool adds) = nullptr;
};

/// A linear layer's parameters.
struct LinearParameters {
  Parameter* weight;  ///< [out, in]
  Parameter* bias;    ///< [out]; null: no bias
};

/// A norm's parameters.
struct NormParameters {
  Parameter* weight;  ///< [width]
  Parameter* bias;    ///< [width]; null: RMS norm
  double eps;         ///< added to the variance, or the mean square
};

/// Returns whether a layer adds to these parameters' gradients itself: both are bound to flat buffers, neither is frozen.
bool gradients_have_places(const Parameter& weight, const Parameter* bias);

/// The bias as LibTorch's operators take it; empty for null.
std::optional<at::Tensor> value_of(const Parameter* bias);

}  // namespace weft
