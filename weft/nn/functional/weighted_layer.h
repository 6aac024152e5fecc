// Layers with a weight, and perhaps a bias, that add to the gradients of both themselves: at once, or later where backward is
// split (nn/deferred_gradients.h).
#pragma once

#include <optional>

#include "weft/nn/block.h"
#include "weft/nn/functional/activation.h"

namespace weft {

/// The mathematics of such a layer, without state and without autograd. x is its input, dy the gradient of its output.
struct WeightedLayer {
  /// The layer's output.
  at::Tensor (*forward)(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias);
  at::Tensor (*input_gradient)(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight);  ///< like x
  /// Adds the gradients of both as add_gradient() does; `bias` null: there is none.
  void (*add_gradients)(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x);
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

/// Whether apply() can serve a layer with these parameters: both are bound to flat buffers, and neither is frozen.
bool gradients_have_places(const Parameter& weight, const Parameter* bias);

/// The bias as LibTorch's operators take it; null: none.
std::optional<at::Tensor> value_of(const Parameter* bias);

/// The layer's output, which autograd goes on from, of so many pieces of x (nn/ordered_sums.h). Both parameters are bound to
/// flat buffers, and outlive its graph.
at::Tensor apply(const WeightedLayer& layer, const LayerInput& x, Parameter& weight, Parameter* bias, int64_t pieces = 1);

}  // namespace weft
