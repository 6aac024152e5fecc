// What tensors of the meta device stand for: those of a target device, whose costs are measured on it.
#pragma once

#include <c10/core/Device.h>

#include "weft/base/target_device.h"

namespace weft {

/// The target device of tensors on `device`: for the meta device, that of the thread's innermost TargetScope.
TargetDevice target_of(at::Device device);

/// Sets what this thread's meta tensors stand for during its lifetime; a CPU outside any scope.
class TargetScope {
 public:
  /// From now on.
  explicit TargetScope(TargetDevice device);
  ~TargetScope();
  TargetScope(const TargetScope&) = delete;
  TargetScope& operator=(const TargetScope&) = delete;

 private:
  TargetDevice before_;
};

}  // namespace weft
