// OperatorClock: times calls of operators on a device, as they run in a training step.
//
// On a CPU a step's other tensors have passed through the caches since an operator's own were last used. So before each call
// 8 MiB of other memory are read: more than a core's own caches hold, less than those that cores share.
#pragma once

#include <ATen/core/Tensor.h>

#include <ctime>
#include <functional>

namespace weft {

/// What a clock of the system shows, in seconds.
double clock_seconds(clockid_t clock);

class OperatorClock {
 public:
  /// Each measurement takes up to 3 `turns` calls.
  OperatorClock(at::Device device, int turns);

  /// Seconds per call, the median of several after one that is not counted.
  double seconds(const std::function<void()>& call) const;

 private:
  double now() const;
  double timed(const std::function<void()>& call, int calls) const;
  void wait() const;
  void use_caches() const;

  at::Device device_;
  int turns_;
  bool is_one_thread_;
  double reading_s_ = 0.0;  ///< what the clock takes
  at::Tensor others_;       ///< memory of other tensors
};

}  // namespace weft
