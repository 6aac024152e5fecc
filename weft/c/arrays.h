// The caller's arrays as tensors. What an array must be is known before its memory is touched.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "weft/c/weft.h"

namespace weft::c {

/// What an argument must be: `like` has its type (float32 or int64) and shape, the first size apart; on the meta device.
struct ExpectedArray {
  std::string name;     ///< in errors
  at::Tensor like;      ///< shape and type
  int64_t samples = 0;  ///< first size; below 0: any
};

/// The arrays of one call, each in host memory or in that of the rank's device.
class Arrays {
 public:
  explicit Arrays(at::Device device) : device_(device) {}
  ~Arrays() { wait(); }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  /// Returns a caller's array as a tensor of the expected type. float64 stands for float32, int32 for int64: these are
  /// converted. The memory is borrowed if the array says so and has that type. Throws InputError if it is not as expected.
  at::Tensor tensor_of(const weft_array* array, const ExpectedArray& expected);

  /// Returns the arrays `first[0, count)` as tensors. Throws InputError for another count than expected.
  std::vector<at::Tensor> tensors_of(const weft_array* first, int count, const std::vector<ExpectedArray>& expected);

  /// What is done with an array's memory.
  enum class Use { reads, writes };
  /// Returns the caller's memory as a tensor, of any shape and type. Throws InputError for an array that is no memory of this
  /// process, or of another device.
  at::Tensor memory_of(const weft_array* array, const std::string& name, Use use);

  /// Writes the values into the caller's array. Throws InputError unless shapes are equal.
  void write_to(const weft_array* array, const at::Tensor& value, const std::string& name);

  /// Waits until the device is done with its arrays' memory.
  void wait() noexcept;

 private:
  at::Device device_;
  bool has_device_memory_ = false;
};

/// An array that shows a tensor on the CPU while both live. Types beside the four of weft_array are converted to them.
class ArrayView {
 public:
  explicit ArrayView(const at::Tensor& value);
  const weft_array* array() const { return &array_; }

 private:
  at::Tensor value_;
  weft_array array_ = {};
};

}  // namespace weft::c
