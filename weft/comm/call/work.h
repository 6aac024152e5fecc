// Work: a collective in flight, and Traffic: a rank's totals.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace weft {

/// Totals of this rank's calls on a group.
struct Traffic {
  int64_t calls = 0;     ///< started, messages included
  int64_t bytes = 0;     ///< payload this rank had to send, by the algorithm-independent formulas in comm/group.h
  double seconds = 0.0;  ///< wall time this rank spent inside calls and waits
};

/// A collective in flight. wait() may be called more than once; the destructor does not wait.
class Work {
 public:
  /// State of a back end's call.
  class State {
   public:
    virtual ~State() = default;
    /// Returns once the call is done on this rank; may be called again. Throws like Work::wait().
    virtual void wait() = 0;
  };
  Work() = default;  ///< already done
  /// Work that completes with `state`.
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool empty() const { return !state_; }  ///< no call to wait for
  /// Returns once this rank's tensors may be read and overwritten (on a GPU: by later work on the current stream). Throws
  /// CommError if a rank failed, made a different call or did not arrive in time.
  void wait() {
    if (state_) state_->wait();
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace weft
