// Backward of a block in two parts: first the gradients of its inputs, later those of its weights (Qi et al. 2024,
// arXiv:2401.10241). The first part defers the work of the second.
//
// Layers that support this (nn/layers/linear.h, Conv2d) defer their weight gradient and keep its operands. Gradients of all
// other parameters are computed in the first part and added in the second. So the first part changes no gradient, and both
// parts together give the same bits as a whole backward.
#pragma once

#include <functional>
#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/graph.h"

namespace weft {

/// Deferred weight gradients, in the order in which a whole backward would add them.
class DeferredGradients {
 public:
  /// Defers `work`, which adds one gradient with add_gradient().
  void add(std::function<void()> work) { work_.push_back(std::move(work)); }
  /// Runs all deferred work, once.
  void run();
  /// Returns whether nothing is deferred.
  bool empty() const { return work_.empty(); }

 private:
  std::vector<std::function<void()>> work_;
};

/// Adds `addend` to parameter.gradient. If value.grad() is undefined, overwrites the gradient instead and defines value.grad().
/// The gradient may have a wider type than `addend`.
void add_gradient(Parameter& parameter, const at::Tensor& addend);

/// Like run_backward(), but leaves the gradients of `parameters`, which must be all parameters of the graph, unchanged. Returns
/// the deferred work.
DeferredGradients run_backward_input(const std::vector<Parameter*>& parameters, const GraphEnds& ends,
                                     const Tensors& gradients);

}  // namespace weft
