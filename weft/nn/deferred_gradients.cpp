#include "weft/nn/deferred_gradients.h"

#include <c10/core/GradMode.h>

#include "weft/nn/graph.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

/// While alive, new gradients of the parameters are kept apart from existing ones.
class SeparateGradients {
 public:
  SeparateGradients(const std::vector<Parameter*>& parameters, DeferredGradients& deferred) : parameters_(parameters) {
    for (Parameter* parameter : parameters_) {
      there_.push_back(parameter->value.grad());
      parameter->value.mutable_grad().reset();
      parameter->deferred = &deferred;
    }
  }
  ~SeparateGradients() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i]->value.mutable_grad() = there_[i];
      parameters_[i]->deferred = nullptr;
    }
  }
  SeparateGradients(const SeparateGradients&) = delete;
  SeparateGradients& operator=(const SeparateGradients&) = delete;

 private:
  const std::vector<Parameter*>& parameters_;
  Tensors there_;
};

}  // namespace

void add_gradient(Parameter& parameter, const at::Tensor& addend) {
  const TensorChecks check("gradient");
  check.place("place", parameter.gradient, parameter.value.sizes(), parameter.value);
  check.floating("addend", addend, parameter.value.sizes(), parameter.value);
  at::Tensor& gradient = parameter.value.mutable_grad();
  if (gradient.defined()) {
    gradient.add_(addend);
  } else {
    gradient = parameter.gradient;
    gradient.copy_(addend);
  }
}

void DeferredGradients::run() {
  c10::NoGradGuard no_grad;
  for (const std::function<void()>& work : work_) work();
  work_.clear();
}

DeferredGradients run_backward_input(const std::vector<Parameter*>& parameters, const GraphEnds& ends,
                                     const Tensors& gradients) {
  DeferredGradients deferred;
  const SeparateGradients aside(parameters, deferred);
  run_backward(ends, gradients);
  for (Parameter* parameter : parameters) {
    const at::Tensor gradient = parameter->value.grad();
    if (gradient.defined()) deferred.add([parameter, gradient] { add_gradient(*parameter, gradient); });
  }
  return deferred;
}

}  // namespace weft
