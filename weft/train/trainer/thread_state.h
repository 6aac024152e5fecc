// What a trainer's results could depend on beside what it is given: state of the calling thread and settings of the process.
//
// Each is irrelevant, put back or refused. A trainer computes as a new thread would: gradients on, no inference mode, no
// dispatch key that a guard of the caller's took in or out, floats rounded and kept as IEEE 754 has it by default, its own
// device, and the number of threads that it started with. The caller's own state is there again whenever the caller's code
// runs: after each call, and in the functions that hand out a step's micro-batches. (What saves and loads registered state, and
// the data set of an evaluation, run in the trainer's.) Autocast is refused, as it would be without effect:
// precision is the layout's. LibTorch's settings of which kernels a process uses are the user's, and stay as they were at the
// start: other ones are refused (nothing of weft reads the default dtype, which may be any).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace weft {

/// The calling thread's state while a trainer works in it; at the end the caller's again. Costs less than a microsecond, unless
/// the number of threads is another.
class OwnThreadState {
 public:
  OwnThreadState(at::Device device, int threads);
  ~OwnThreadState();

  /// Runs `call`, which is the caller's, in the caller's state.
  template <class Call>
  auto as_caller(const Call& call) {
    const Exchanged exchanged(*this);
    return call();
  }

 private:
  /// The caller's state until its end.
  class Exchanged {
   public:
    explicit Exchanged(OwnThreadState& states) : states_(states) { states_.exchange(); }
    ~Exchanged() { states_.exchange(); }

   private:
    OwnThreadState& states_;
  };
  struct State;
  void exchange();

  std::unique_ptr<State> other_;  ///< the caller's; the trainer's while the caller's is there
};

/// Threads that LibTorch computes with in the calling thread.
int num_threads();

/// Throws InputError where autocast is on in the calling thread, for `device` or the CPU.
void refuse_autocast(at::Device device);

/// LibTorch's settings that decide which kernels run, as they are now: one value each, in an order of their own.
using KernelSettings = std::vector<std::string>;
KernelSettings kernel_settings();
/// Throws InputError where they are others now, naming the first.
void check_kernel_settings(const KernelSettings& at_start);
/// A line of all of them, with their names.
std::string kernel_settings_text(const KernelSettings& settings);

}  // namespace weft
