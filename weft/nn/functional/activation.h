// Activation: what stands before a linear layer and need not be kept for backward: the layer's weight gradient needs its
// output, which costs less to make again than to keep. A GPT's MLP so keeps half of what it would.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// A function of one or more tensors that are alike, element by element.
struct Activation {
  /// What comes back: gradients of all inputs, and the output once more.
  struct Backward {
    Tensors gradients;  ///< like the inputs
    at::Tensor value;   ///< the bits that forward gave
  };
  at::Tensor (*value)(const Tensors& inputs);  ///< not seen by autograd
  /// From the gradient of the output, which may be overwritten, and the inputs too where `overwrites`. Not seen by autograd.
  Backward (*backward)(const Tensors& inputs, const at::Tensor& gradient, bool overwrites);
  at::Tensor (*differentiable)(const Tensors& inputs);  ///< seen by autograd
};

/// GELU (nn/functional/gelu.h) of one tensor.
extern const Activation kGelu;
/// SwiGLU (nn/functional/swiglu.h) of two, the gate and what it lets through.
extern const Activation kSwiglu;

/// What goes into a layer: a tensor, or an activation of some, which the layer keeps in its stead.
struct LayerInput {
  LayerInput(const at::Tensor& x) : tensors{x} {}  ///< implicit: a tensor stands for itself
  /// `activation` of `inputs`.
  LayerInput(Tensors inputs, const Activation& activation) : tensors(std::move(inputs)), activation(&activation) {}

  /// The same of inputs that nothing else reads: where a graph is run backward once, backward writes over them.
  static LayerInput used_up(Tensors inputs, const Activation& activation) {
    LayerInput input(std::move(inputs), activation);
    input.is_used_up = true;
    return input;
  }

  /// What the layer computes with, seen by autograd.
  at::Tensor value() const { return activation ? activation->differentiable(tensors) : tensors.front(); }
  /// Of what the layer computes with.
  at::IntArrayRef sizes() const { return tensors.front().sizes(); }

  Tensors tensors;                         ///< what is kept
  const Activation* activation = nullptr;  ///< null: none; lives as long as the graph
  bool is_used_up = false;                 ///< used_up()
};

}  // namespace weft
