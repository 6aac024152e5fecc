#include "weft/nn/target_scope.h"

#include <utility>

namespace weft {

namespace {

// The observer of planning calls layers, which take no target device: a property of the thread. Backward of meta tensors runs
// on the thread that asks for it.
thread_local TargetDevice planned = TargetDevice::cpu;

}  // namespace

TargetDevice target_of(at::Device device) {
  if (device.is_meta()) return planned;
  return device.is_cpu() ? TargetDevice::cpu : TargetDevice::gpu;
}

TargetScope::TargetScope(TargetDevice device) : before_(std::exchange(planned, device)) {}
TargetScope::~TargetScope() { planned = before_; }

}  // namespace weft
