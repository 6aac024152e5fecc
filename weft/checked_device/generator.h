// Generators of the device: each wraps one of the CPU, so equal seeds give the CPU's numbers.
#pragma once

#include <ATen/core/Generator.h>

#include <mutex>

namespace weft::checked_device {

const at::Generator& default_generator(int device);  ///< -1: the current device's
at::Generator new_generator(int device);

/// The wrapped generator of the CPU.
at::Generator cpu_generator(const at::Generator& generator);

/// While it lives, the CPU's default generator has the state of a device's default one: for kernels that take no generator.
class DefaultGeneratorScope {
 public:
  explicit DefaultGeneratorScope(int device);
  ~DefaultGeneratorScope();
  DefaultGeneratorScope(const DefaultGeneratorScope&) = delete;
  DefaultGeneratorScope& operator=(const DefaultGeneratorScope&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;  ///< one scope at a time
  at::Generator cpu_, own_;
  c10::intrusive_ptr<c10::TensorImpl> kept_;
};

}  // namespace weft::checked_device
