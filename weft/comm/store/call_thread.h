// CallThread: runs calls that may never end, one after another on its own thread, so callers can wait with a deadline.
//
// c10d's store waits in its socket's receive without a deadline. A caller that gives up abandons the call, which owns
// everything it needs; its result is dropped. It costs one thread, and two wake-ups per call.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "weft/base/deadline.h"

namespace weft {

class CallThread {
 public:
  CallThread();
  /// Abandons a call that does not end.
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  /// Runs `call`, and rethrows its exception. Returns false if it has not ended in time; a call that had already started may
  /// still run to its end.
  bool run(std::function<void()> call, const Deadline& deadline);

 private:
  struct Job;
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace weft
