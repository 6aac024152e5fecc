#include "weft/nn/model_buffers.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

void check_buffer(const std::string& name, const at::Tensor& value) {
  const auto refuse = [&name](const std::string& what) {
    throw InputError(
        fmt::format("model: buffer '{}' is {}; keep its parts, or its values as floats or integers, as "
                    "separate buffers",
                    name, what));
  };
  if (value.layout() != at::kStrided) refuse("a sparse tensor, which ranks cannot share and checkpoints cannot store");
  if (value.is_quantized()) refuse("a quantized tensor, which checkpoints cannot store");
  if (value.is_meta()) {
    throw InputError(fmt::format("model: buffer '{}' is on the meta device, where it has no values; make it on the CPU", name));
  }
}

}  // namespace

std::vector<ModelBuffer> buffers_of(const Model& model) {
  std::vector<ModelBuffer> result;
  for (int b = 0; b < model.num_blocks(); ++b) {
    const NamedBlock& named = model.blocks[static_cast<size_t>(b)];
    for (BufferSpec& spec : named.block->buffers()) {
      const std::string name = named.prefix.empty() ? spec.name : named.prefix + "." + spec.name;
      check_buffer(name, spec.value);
      result.push_back({.name = name,
                        .shape = spec.value.sizes().vec(),
                        .type = spec.value.scalar_type(),
                        .block = b,
                        .counts = spec.counts,
                        .saved = spec.saved,
                        .value = std::move(spec.value)});
    }
  }
  return result;
}

at::Tensor values_of(const ModelBuffer& buffer) {
  c10::NoGradGuard no_grad;
  return buffer.value.detach().resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous);
}

void set_values(const ModelBuffer& buffer, const at::Tensor& values) {
  c10::NoGradGuard no_grad;
  at::Tensor value = buffer.value;
  if (!values.defined() || values.numel() != value.numel())
    throw InputError(fmt::format("model: buffer '{}' is given values {}, but is {}", buffer.name, type_and_shape(values),
                                 type_and_shape(value)));
  if (value.is_inference() || at::has_internal_overlap(value) == at::MemOverlap::Yes) {
    value.set_data(values.to(value.device()).clone());
  } else {
    value.copy_(values);
  }
}

at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

}  // namespace weft
