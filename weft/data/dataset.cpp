#include "weft/data/dataset.h"

#include <fmt/format.h>

namespace weft {

std::string samples_misfit(const Batch& batch, int64_t samples) {
  const auto misfit = [samples](const std::string& name, const at::Tensor& tensor) -> std::string {
    if (!tensor.defined()) return name + " is missing";
    if (tensor.dim() == 0) return name + " has no dimension of samples";
    return tensor.size(0) == samples ? "" : fmt::format("{} has {} samples", name, tensor.size(0));
  };
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const std::string text = misfit(fmt::format("input {}", i), batch.inputs[i]);
    if (!text.empty()) return text;
  }
  return misfit("the target", batch.target);
}

bool have_like_rows(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.dim() == b.dim() &&
         a.sizes().slice(1) == b.sizes().slice(1);
}

}  // namespace weft
