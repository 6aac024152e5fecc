// State that could affect a trainer's results besides its inputs: that of the calling thread, and process settings.
//
// Each kind is irrelevant, restored or refused. A trainer computes like a new thread: gradients on, no inference mode, no
// dispatch keys changed by the caller's guards, default IEEE 754 rounding and denormals, its own device, and the thread count
// it started with. The caller's state is restored whenever the caller's code runs: after each call, and in the functions that
// hand out micro-batches. (Functions for registered state, and evaluation data sets, run in the trainer's.) Autocast is
// refused, because it would have no effect: the layout sets the precision. LibTorch's settings that select kernels are the
// user's, and must stay as at the start: changes are refused (no weft code reads the default dtype, so it may be any).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace weft {

/// Replaces the calling thread's state while a trainer works in it, and restores it at the end; of the threads that compute
/// for it, rounding and denormals. Costs some microseconds, with one thread less than one unless the thread count differs.
class OwnThreadState {
 public:
  OwnThreadState(at::Device device, int threads);
  ~OwnThreadState();

  /// Runs `call`, the caller's code, in the caller's state.
  template <class Call>
  auto as_caller(const Call& call) {
    const Exchanged exchanged(*this);
    return call();
  }

 private:
  /// Restores the caller's state for its lifetime.
  class Exchanged {
   public:
    explicit Exchanged(OwnThreadState& states) : states_(states) { states_.exchange(); }
    ~Exchanged() { states_.exchange(); }

   private:
    OwnThreadState& states_;
  };
  struct State;
  void exchange();

  std::unique_ptr<State> other_;  ///< the inactive state: the caller's, or the trainer's while the caller's is active
  class PoolFloats;
  std::unique_ptr<PoolFloats> pool_;  ///< null: no thread but this computes
  bool is_own_ = true;                ///< the trainer's state is active
};

/// Number of threads that LibTorch uses for work of the calling thread.
int num_threads();

/// Throws InputError if autocast is on in the calling thread, for `device` or the CPU.
void refuse_autocast(at::Device device);

/// Current values of LibTorch's settings that select kernels, in a fixed order.
using KernelSettings = std::vector<std::string>;
KernelSettings kernel_settings();
/// Throws InputError if they have changed, naming the first.
void check_kernel_settings(const KernelSettings& at_start);
/// Formats all settings on one line, with their names.
std::string kernel_settings_text(const KernelSettings& settings);

}  // namespace weft
