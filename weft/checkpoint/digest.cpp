#include "weft/checkpoint/digest.h"

#include <ATen/ops/view_as_real.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "weft/base/error.h"

namespace weft {

void WeightsDigest::add(const std::string& name, const at::Tensor& tensor) {
  if (!is_first_ && name == last_) throw InputError(fmt::format("digest: two tensors are named \"{}\"; rename one", name));
  if (!is_first_ && name < last_)
    throw InputError(fmt::format("digest: \"{}\" comes after \"{}\"; add them in order", name, last_));
  if (name.find('\0') != std::string::npos) throw InputError("digest: a tensor name contains a zero byte; rename it");
  if (!tensor.defined()) throw InputError(fmt::format("digest: tensor \"{}\" is undefined", name));
  is_first_ = false;
  last_ = name;
  hash_.add(name.c_str(), name.size() + 1);
  const std::string shape = fmt::format("{}", fmt::join(tensor.sizes(), ","));
  hash_.add(shape.c_str(), shape.size() + 1);
  const at::Tensor cpu = tensor.detach().to(at::kCPU);
  const at::Tensor values = (cpu.is_complex() ? at::view_as_real(cpu.resolve_conj()) : cpu).to(at::kFloat).contiguous();
  hash_.add(values.const_data_ptr(), values.nbytes());
}

std::string WeightsDigest::hex() { return hash_.hex(); }

std::string weights_sha256(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> ordered;
  ordered.reserve(tensors.size());
  for (const NamedTensor& t : tensors) ordered.push_back(&t);
  std::sort(ordered.begin(), ordered.end(), [](const NamedTensor* a, const NamedTensor* b) { return a->name < b->name; });
  WeightsDigest digest;
  for (const NamedTensor* tensor : ordered) digest.add(tensor->name, tensor->tensor);
  return digest.hex();
}

}  // namespace weft
