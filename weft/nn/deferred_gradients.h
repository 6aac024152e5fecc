// A block's backward in two parts: the gradients of its inputs first, those of its weights later (Qi et al. 2024,
// arXiv:2401.10241). What the first part leaves is kept as work still to do.
//
// Layers that can (nn/layers/linear.h, Conv2d) put off the computing itself and keep its operands; the gradients of all other
// parameters are computed with the first part and only added with the second. So the first part changes no gradient, and both
// parts together give the same bits as a whole backward.
#pragma once

#include <functional>
#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/graph.h"

namespace weft {

/// Weight gradients put off, in the order in which a whole backward would add them.
class DeferredGradients {
 public:
  /// Puts off `work`, which adds one gradient to its place (add_gradient()).
  void add(std::function<void()> work) { work_.push_back(std::move(work)); }
  /// Does all that was put off, once.
  void run();
  /// Whether nothing is put off.
  bool empty() const { return work_.empty(); }

 private:
  std::vector<std::function<void()>> work_;
};

/// Adds to parameter.gradient, or overwrites it while value.grad() is undefined (and defines that). The gradient may be of a
/// wider type than `addend`.
void add_gradient(Parameter& parameter, const at::Tensor& addend);

/// Runs the graph from `gradients` of its outputs on, as run_backward() does, but leaves the gradients of these parameters
/// (all that the graph has) as they are.
DeferredGradients run_backward_input(const std::vector<Parameter*>& parameters, const GraphEnds& ends,
                                     const Tensors& gradients);

}  // namespace weft
