// TensorChecks: what a layer function asks of its tensors before anything reads their memory by the sizes of others. Only
// what a tensor says of itself is looked at, no values: a check costs nanoseconds and waits for no device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// "Float [2, 3]", "undefined".
std::string type_and_shape(const at::Tensor& x);

/// The checks of one call. Each throws an InputError such as `norm: weight is Float [4]; it must be [8] on cpu`.
class TensorChecks {
 public:
  static constexpr int64_t kAny = -1;  ///< a size that may be any

  /// `call` names what is called in errors, and outlives this.
  constexpr explicit TensorChecks(std::string_view call) : call_(call) {}

  /// Its values lie in memory, by strides, as they are: neither sparse nor a view that is negated when it is read.
  void dense(const char* name, const at::Tensor& x) const;
  /// Dense floating point, of at least so many dims.
  void floats(const char* name, const at::Tensor& x, int64_t least_dims = 0) const;
  /// Dense, of these sizes, on the device of `beside`.
  void sizes(const char* name, const at::Tensor& x, at::IntArrayRef sizes, const at::Tensor& beside) const;
  /// The same of floating point.
  void floating(const char* name, const at::Tensor& x, at::IntArrayRef sizes, const at::Tensor& beside) const;
  /// Dense, of the sizes, type and device of `other`.
  void like(const char* name, const at::Tensor& x, const at::Tensor& other) const;
  /// Floating point of these sizes on the device of `beside`, each element at an address of its own, to be written to.
  void place(const char* name, const at::Tensor& x, at::IntArrayRef sizes, const at::Tensor& beside) const;
  /// Dense whole numbers that at::embedding() takes, int64 or int32, for rows of `table`, which has some if there are any.
  void ids(const char* name, const at::Tensor& x, const at::Tensor& table) const;
  /// Dense, with this dim, which may be counted from the end; returns it as counted from 0 on.
  int64_t dim(const char* name, const at::Tensor& x, int64_t dim) const;
  /// No gradient is asked of it, as none would be given.
  void constant(const char* name, const at::Tensor& x) const;
  /// What no check above says: refuses x unless `holds`.
  void that(bool holds, const char* name, const at::Tensor& x, std::string_view must_be) const {
    if (!holds) refuse(name, x, must_be);
  }

 private:
  [[noreturn]] void refuse(const char* name, const at::Tensor& x, std::string_view must_be) const;

  std::string_view call_;
};

}  // namespace weft
