// A block's backward in two parts: the gradients of its inputs first, those of its weights later (Qi et al. 2024,
// arXiv:2401.10241). What the first part leaves is kept as work still to do.
//
// Layers that can (nn/linear.h, Conv2d) put off the computing itself and keep its operands; the gradients of all other
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
  void add(std::function<void()> work) { work_.push_back(std::move(work)); }
  /// Adds them to where Parameter::gradient says, once.
  void run();
  bool empty() const { return work_.empty(); }

 private:
  std::vector<std::function<void()>> work_;
};

/// parameter.gradient (+)= addend: overwritten while value.grad() is undefined (and that defined by it), added to otherwise.
/// The gradient may be of a wider type.
void add_gradient(Parameter& parameter, const at::Tensor& addend);

/// Runs the graph from `gradients` of its outputs on, as run_backward() does, but leaves the gradients of these parameters
/// (all that the graph has) as they are.
DeferredGradients run_backward_input(const std::vector<Parameter*>& parameters, const GraphEnds& ends,
                                     const Tensors& gradients);

}  // namespace weft
