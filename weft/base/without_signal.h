// WithoutSignal: while it lives, a write of this thread that would end the process by a signal is an ordinary error, which the
// writer has a message for: EFBIG instead of SIGXFSZ beyond the limit on file sizes (ulimit -f, RLIMIT_FSIZE), EPIPE instead of
// SIGPIPE where nobody reads any more. The program's own handling of the signal stays as it is.
#pragma once

#include <signal.h>

namespace weft {

class WithoutSignal {
 public:
  /// `number` is that of a signal which the kernel sends to the thread that writes.
  explicit WithoutSignal(int number);
  /// Leaves errno alone.
  ~WithoutSignal();
  WithoutSignal(const WithoutSignal&) = delete;
  WithoutSignal& operator=(const WithoutSignal&) = delete;

 private:
  int number_;
  sigset_t old_mask_{};
  bool was_pending_ = false;
};

}  // namespace weft
