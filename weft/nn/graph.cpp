#include "weft/nn/graph.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <stdexcept>
#include <string_view>

#include "weft/base/error.h"

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

Tensors without_gaps(Tensors outputs) {
  for (at::Tensor& output : outputs) {
    if (output.numel() == 0) continue;
    const size_t places = at::detail::computeStorageNbytes(output.sizes(), output.strides(), /*itemsize=*/1);
    if (places > static_cast<size_t>(output.numel())) output = output.contiguous();
  }
  return outputs;
}

Tensors widen(const Tensors& tensors) {
  Tensors result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    const bool narrow = tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
    result.push_back(narrow ? tensor.to(at::kFloat) : tensor);
  }
  return result;
}

void refuse_second_order(std::string_view what) {
  if (!at::GradMode::is_enabled()) return;
  throw InputError(fmt::format("{}: differentiable once only; run backward without create_graph", what));
}

bool frees_graph() { return !torch::autograd::get_current_graph_task_keep_graph(); }

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

GraphEnds::GraphEnds(const Tensors& outputs) {
  for (const at::Tensor& output : outputs) {
    const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(output);
    ends_.push_back({edge.function, edge.input_nr});
  }
}

void run_backward(const GraphEnds& ends, const Tensors& gradients) {
  if (gradients.size() != ends.ends_.size()) {
    throw InputError(
        fmt::format("backward: {} gradients for {} outputs; undefined ones are allowed", gradients.size(), ends.ends_.size()));
  }
  torch::autograd::edge_list roots;
  Tensors seeds;
  for (size_t i = 0; i < ends.ends_.size(); ++i) {
    const auto& [node, output] = ends.ends_[i];
    if (!node || !gradients[i].defined()) continue;
    roots.emplace_back(node, output);
    seeds.push_back(gradients[i]);
  }
  if (roots.empty()) return;
  try {
    torch::autograd::Engine::get_default_engine().execute(roots, seeds, /*keep_graph=*/false, /*create_graph=*/false,
                                                          /*accumulate_grad=*/true);
  } catch (const std::logic_error& error) {  // LibTorch's own, which is no c10::Error
    if (!std::string_view(error.what()).starts_with("leaf variable has been moved")) throw;
    throw InputError("backward: the forward has changed a parameter or one of its inputs in place; make a new tensor instead");
  }
}

Tensors take_gradients(const Tensors& inputs) {
  Tensors gradients;
  gradients.reserve(inputs.size());
  for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
  return gradients;
}

}  // namespace weft
