// Activation: a function before a linear layer whose output is not kept for backward. The layer's weight gradient needs that
// output, but recomputing is cheaper than keeping. This halves what a GPT's MLP keeps for backward.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// An element-wise function of one or more tensors of the same shape and type.
struct Activation {
  /// Result of backward: gradients of all inputs, and the output again.
  struct Backward {
    Tensors gradients;  ///< shaped as the inputs
    at::Tensor value;   ///< same bits as in forward
  };
  at::Tensor (*value)(const Tensors& inputs);  ///< not seen by autograd
  /// Takes the output's gradient. May overwrite it, and with `overwrites` also the inputs. Not seen by autograd.
  Backward (*backward)(const Tensors& inputs, const at::Tensor& gradient, bool overwrites);
  at::Tensor (*differentiable)(const Tensors& inputs);  ///< seen by autograd
};

/// GELU (nn/functional/gelu.h) of one tensor.
extern const Activation kGelu;
/// SwiGLU (nn/functional/swiglu.h) of two tensors: gate and up.
extern const Activation kSwiglu;

/// Input of a layer: a tensor, or an activation of some tensors. The layer keeps these tensors, not the activation's output.
struct LayerInput {
  LayerInput(const at::Tensor& x) : tensors{x} {}  ///< implicit, from a plain tensor
  /// The input `activation`(`inputs`).
  LayerInput(Tensors inputs, const Activation& activation) : tensors(std::move(inputs)), activation(&activation) {}

  /// The same for inputs that nothing else reads: if the graph runs backward only once, backward overwrites them.
  static LayerInput overwritable(Tensors inputs, const Activation& activation) {
    LayerInput input(std::move(inputs), activation);
    input.is_overwritable = true;
    return input;
  }

  /// The value that the layer computes with, seen by autograd.
  at::Tensor value() const { return activation ? activation->differentiable(tensors) : tensors.front(); }
  /// Sizes of that value.
  at::IntArrayRef sizes() const { return tensors.front().sizes(); }

  Tensors tensors;                         ///< tensors kept for backward
  const Activation* activation = nullptr;  ///< null: no activation; must outlive the graph
  bool is_overwritable = false;            ///< made by overwritable()
};

}  // namespace weft
