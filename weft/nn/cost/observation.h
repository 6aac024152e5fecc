// Observation: what a thread's calls of operators compute, make and launch on the meta device. Half of measure_cost.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "weft/base/operator_work.h"
#include "weft/base/target_device.h"

namespace weft {

/// Storages, by address.
using Storages = std::unordered_set<const c10::StorageImpl*>;

/// Observations of one measurement.
struct Observation {
  /// Storages of `parameters`, which must outlive it, do not count.
  Observation(const Storages& parameters, TargetDevice device) : parameters(parameters), device(device) {}

  const Storages& parameters;                                   ///< not counted
  TargetDevice device;                                          ///< whose allocator's rounding counts
  Storages inputs;                                              ///< not counted either
  double flops = 0.0;                                           ///< floating-point operations so far
  std::map<std::string, int> launches;                          ///< kernels launched so far
  PassOperators operators;                                      ///< what they have to do
  int running = 0;                                              ///< launched kernels that run now, with what they call
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made;  ///< each listed once
  int64_t peak_bytes = 0;                                       ///< highest live_bytes() so far

  /// Bytes that a storage takes.
  int64_t bytes_in(const c10::StorageImpl& x) const { return allocated_bytes(device, static_cast<int64_t>(x.nbytes())); }
  /// Bytes of the storages made that are alive.
  int64_t live_bytes() const;
  /// Notes a storage that an operator returns.
  void observe(c10::StorageImpl* storage);
};

/// Operations that this thread's observation has seen; 0 without one.
double flops_so_far();

/// Observes this thread while alive.
class Observer {
 public:
  /// `seen` must outlive it; one at a time.
  explicit Observer(Observation& seen);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  uint64_t handle_;
};

}  // namespace weft
