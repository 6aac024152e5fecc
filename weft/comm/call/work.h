// Work: a collective under way, and Traffic: what a rank has done so far.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace weft {

/// What this rank has done on a group so far.
struct Traffic {
  int64_t calls = 0;     ///< started, messages included
  int64_t bytes = 0;     ///< payload this rank had to send, by the algorithm-independent convention below
  double seconds = 0.0;  ///< wall time this rank spent inside calls and waits
};

/// A collective under way. wait() may be called more than once; the destructor does not wait.
class Work {
 public:
  /// What a back end waits for.
  class State {
   public:
    virtual ~State() = default;
    /// Returns once the call is done on this rank, again at each further call; throws what Work::wait() throws.
    virtual void wait() = 0;
  };
  Work() = default;  ///< already done
  /// Work that is done when `state` says so.
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool empty() const { return !state_; }  ///< there never was anything to wait for
  /// Returns once this rank's tensors may be read and overwritten (on a GPU: by what the current stream is given afterwards).
  /// Throws CommError when a rank failed, called something else or did not come in time.
  void wait() {
    if (state_) state_->wait();
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace weft
