#include "weft/checkpoint/weights/torch_file.h"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "weft/base/error.h"
#include "weft/base/input_file.h"

namespace weft {
namespace {

[[noreturn]] void refuse_torch_file(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format(
      "{}: cannot read it as a state dict of torch.save(): {}; save model.state_dict(), or safetensors", path, reason));
}

void collect(const c10::IValue& value, const std::string& path, std::map<std::string, at::Tensor>& out) {
  if (!value.isGenericDict()) refuse_torch_file(path, fmt::format("it holds a {}", value.tagKind()));
  for (const auto& entry : value.toGenericDict()) {
    if (!entry.key().isString()) refuse_torch_file(path, "a key is no text");
    if (!entry.value().isTensor()) {
      refuse_torch_file(path, fmt::format("'{}' is no tensor but a {}", entry.key().toStringRef(), entry.value().tagKind()));
    }
    out[entry.key().toStringRef()] = entry.value().toTensor();
  }
}

}  // namespace

std::map<std::string, at::Tensor> read_torch_file(const std::string& path) {
  const InputFile file = open_input(path);
  if (!file.reason.empty()) throw InputError(fmt::format("{}: cannot read it: {}", path, file.reason));
  std::vector<char> bytes(static_cast<size_t>(file.bytes));
  if (read_input(file, 0, bytes.data(), file.bytes) != file.bytes)
    refuse_torch_file(path, "it became shorter while it was read");
  std::map<std::string, at::Tensor> tensors;
  try {
    collect(torch::jit::pickle_load(bytes), path, tensors);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    refuse_torch_file(path, text.substr(0, text.find('\n')));
  }
  return tensors;
}

}  // namespace weft
