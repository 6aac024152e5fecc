// Work: a collective under way, and Traffic: what a rank has done so far.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace weft {

/// What this rank has done on a group so far.
struct Traffic {
  int64_t calls = 0;
  int64_t bytes = 0;     ///< payload this rank had to send, by the algorithm-independent convention below
  double seconds = 0.0;  ///< wall time this rank spent inside calls and waits
};

/// A collective under way. wait() may be called more than once; the destructor does not wait.
class Work {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;
  };
  Work() = default;  ///< already done
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool empty() const { return !state_; }  ///< there never was anything to wait for
  void wait() {
    if (state_) state_->wait();
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace weft
