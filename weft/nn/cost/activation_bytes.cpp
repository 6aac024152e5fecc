#include "weft/nn/cost/activation_bytes.h"

#include <algorithm>

namespace weft {

int64_t bytes_of(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  return bytes;
}

int64_t passed_bytes(const Tensors& inputs, const Tensors& outputs) {
  Tensors passed;
  passed.reserve(outputs.size());
  for (const at::Tensor& output : outputs) {
    const auto is_it = [&output](const at::Tensor& input) { return input.is_alias_of(output); };
    if (!output.is_floating_point() && std::any_of(inputs.begin(), inputs.end(), is_it)) passed.push_back(output);
  }
  return bytes_of(passed);
}

}  // namespace weft
