// TensorChecks: argument checks of a layer function, made before memory of one tensor is read by the sizes of another. They
// look only at metadata, not at values: a check costs nanoseconds and does not wait for a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// "Float [2, 3]", "undefined".
std::string type_and_shape(const at::Tensor& x);

/// Checks of one call. Each throws an InputError such as `norm: weight is Float [4]; it must be [8] on cpu`.
class TensorChecks {
 public:
  static constexpr int64_t kAny = -1;  ///< any size

  /// `call` names the call in errors, and must outlive this object.
  constexpr explicit TensorChecks(std::string_view call) : call_(call) {}

  /// Requires x to be dense: strided values in memory, neither sparse nor a lazily negated view.
  void dense(const char* name, const at::Tensor& x) const;
  /// Requires x to be dense floating point, with at least `least_dims` dims.
  void floats(const char* name, const at::Tensor& x, int64_t least_dims = 0) const;
  /// Requires x to be dense, of these sizes, on the device of `other_device`.
  void sizes(const char* name, const at::Tensor& x, at::IntArrayRef sizes, const at::Tensor& other_device) const;
  /// Requires the same, and floating point.
  void floating(const char* name, const at::Tensor& x, at::IntArrayRef sizes, const at::Tensor& other_device) const;
  /// Requires x to be dense, with the sizes, type and device of `other`.
  void like(const char* name, const at::Tensor& x, const at::Tensor& other) const;
  /// Requires x to be writable: floating point of these sizes on `other_device`'s device, each element at its own address.
  void place(const char* name, const at::Tensor& x, at::IntArrayRef sizes, const at::Tensor& other_device) const;
  /// Requires x to be dense int64 or int32 ids, as for at::embedding(), of rows of `table`, which must have rows if x has ids.
  void ids(const char* name, const at::Tensor& x, const at::Tensor& table) const;
  /// Requires x to be dense, with this dim, which may be counted from the end; returns it counted from 0.
  int64_t dim(const char* name, const at::Tensor& x, int64_t dim) const;
  /// Requires that x needs no gradient, as it would not get one.
  void constant(const char* name, const at::Tensor& x) const;
  /// Any other condition: refuses x unless `holds`.
  void that(bool holds, const char* name, const at::Tensor& x, std::string_view must_be) const {
    if (!holds) refuse(name, x, must_be);
  }

 private:
  [[noreturn]] void refuse(const char* name, const at::Tensor& x, std::string_view must_be) const;

  std::string_view call_;
};

}  // namespace weft
