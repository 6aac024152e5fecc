// The path of layers on devices other than the CPU: LibTorch's operators or device kernels (nn/device_kernels) where weft has
// kernels of its own for the CPU, and checks of values whose result the host reads later (nn/id_checks.h).
#pragma once

namespace weft {

/// Returns whether this thread's layers take that path for tensors on the CPU too.
bool forces_operators();

/// Forces the path on this thread during its lifetime. For tests, which compare it with the kernels on a machine without
/// another device.
class ForcedOperators {
 public:
  ForcedOperators();
  ~ForcedOperators();
  ForcedOperators(const ForcedOperators&) = delete;
  ForcedOperators& operator=(const ForcedOperators&) = delete;

 private:
  bool before_;
};

}  // namespace weft
