#include "weft/nn/graph.h"

#include <torch/csrc/autograd/autograd.h>

namespace weft {

Tensors detach(const Tensors& tensors) {
  Tensors result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.detach());
    if (tensor.is_floating_point()) result.back().requires_grad_(true);
  }
  return result;
}

Tensors detach_outputs(const Tensors& outputs) {
  Tensors result;
  result.reserve(outputs.size());
  for (const at::Tensor& output : outputs) result.push_back(output.detach().requires_grad_(output.requires_grad()));
  return result;
}

void run_backward(const Tensors& outputs, const Tensors& gradients) {
  Tensors roots, seeds;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
    roots.push_back(outputs[i]);
    seeds.push_back(gradients[i]);
  }
  if (!roots.empty()) torch::autograd::backward(roots, seeds);
}

Tensors take_gradients(const Tensors& inputs) {
  Tensors gradients;
  gradients.reserve(inputs.size());
  for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
  return gradients;
}

}  // namespace weft
