#include "weft/nn/tensor_checks.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"

namespace weft {

namespace {

bool has_sizes(const at::Tensor& x, at::IntArrayRef sizes) {
  if (x.dim() != static_cast<int64_t>(sizes.size())) return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != TensorChecks::kAny && sizes[i] != x.sizes()[i]) return false;
  }
  return true;
}

/// Sizes as text: "[2, *]".
std::string text_of(at::IntArrayRef sizes) {
  std::string text = "[";
  for (const int64_t size : sizes) {
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", size == TensorChecks::kAny ? "*" : fmt::to_string(size));
  }
  return text + "]";
}

}  // namespace

std::string type_and_shape(const at::Tensor& x) {
  if (!x.defined()) return "undefined";
  return fmt::format("{} [{}]", c10::toString(x.scalar_type()), fmt::join(x.sizes(), ", "));
}

void TensorChecks::refuse(const char* name, const at::Tensor& x, std::string_view must_be) const {
  const std::string device = x.defined() && !x.is_cpu() ? " on " + x.device().str() : "";
  throw InputError(fmt::format("{}: {} is {}{}; it must be {}", call_, name, type_and_shape(x), device, must_be));
}

void TensorChecks::dense(const char* name, const at::Tensor& x) const {
  if (x.defined() && x.layout() == at::kStrided && !x.is_neg() && !x.is_conj() && !x._is_zerotensor()) return;
  refuse(name, x, "a dense tensor, whose values lie in memory (contiguous(), to_dense(), resolve_neg())");
}

void TensorChecks::floats(const char* name, const at::Tensor& x, int64_t least_dims) const {
  dense(name, x);
  if (x.is_floating_point() && x.dim() >= least_dims) return;
  refuse(name, x, fmt::format("floating point with at least {} dims", least_dims));
}

void TensorChecks::sizes(const char* name, const at::Tensor& x, at::IntArrayRef sizes, const at::Tensor& other_device) const {
  if (x.defined() && has_sizes(x, sizes) && x.device() == other_device.device()) return dense(name, x);
  const std::string device = other_device.defined() ? " on " + other_device.device().str() : "";
  refuse(name, x, text_of(sizes) + device);
}

void TensorChecks::floating(const char* name, const at::Tensor& x, at::IntArrayRef sizes,
                            const at::Tensor& other_device) const {
  this->sizes(name, x, sizes, other_device);
  if (!x.is_floating_point()) refuse(name, x, "floating point");
}

void TensorChecks::place(const char* name, const at::Tensor& x, at::IntArrayRef sizes, const at::Tensor& other_device) const {
  floating(name, x, sizes, other_device);
  if (at::has_internal_overlap(x) == at::MemOverlap::Yes) refuse(name, x, "a tensor whose elements share no memory");
}

void TensorChecks::like(const char* name, const at::Tensor& x, const at::Tensor& other) const {
  const bool is_like =
      x.defined() && x.sizes() == other.sizes() && x.scalar_type() == other.scalar_type() && x.device() == other.device();
  if (!is_like) refuse(name, x, fmt::format("{} on {}", type_and_shape(other), other.device().str()));
  dense(name, x);
}

void TensorChecks::ids(const char* name, const at::Tensor& x, const at::Tensor& table) const {
  dense(name, x);
  if ((x.scalar_type() != at::kLong && x.scalar_type() != at::kInt) || x.device() != table.device())
    refuse(name, x, fmt::format("int64 or int32 on {}", table.device().str()));
  if (table.size(0) == 0 && x.numel() > 0) refuse(name, x, fmt::format("empty, as the table is {}", type_and_shape(table)));
}

int64_t TensorChecks::dim(const char* name, const at::Tensor& x, int64_t dim) const {
  dense(name, x);
  that(dim >= -x.dim() && dim < x.dim(), name, x, fmt::format("a tensor that has dim {}", dim));
  return dim < 0 ? dim + x.dim() : dim;
}

void TensorChecks::constant(const char* name, const at::Tensor& x) const {
  if (x.requires_grad() && at::GradMode::is_enabled()) refuse(name, x, "detached: it gets no gradient here");
}

}  // namespace weft
