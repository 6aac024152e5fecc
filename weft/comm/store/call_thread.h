// CallThread: runs calls that may never end, one after another on a thread of its own, so that nobody waits for them longer
// than told.
//
// c10d's store waits in its socket's receive without a deadline. A caller that gives up leaves the call behind: it holds
// everything that it needs, and what comes of it is dropped. Costs a thread, and two wakings a call.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "weft/base/deadline.h"

namespace weft {

class CallThread {
 public:
  CallThread();
  /// Leaves a call behind that does not end.
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  /// Runs `call`, and throws what it threw. False when it has not ended in time: then it may yet run to its end, unless it had
  /// not begun.
  bool run(std::function<void()> call, const Deadline& deadline);

 private:
  struct Job;
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace weft
