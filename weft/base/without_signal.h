// WithoutSignal: turns a signal that a write of this thread would raise into an ordinary error that the writer can report:
// EFBIG instead of SIGXFSZ beyond the file-size limit (ulimit -f, RLIMIT_FSIZE), EPIPE instead of SIGPIPE if the reader is
// gone. The program's own handling of the signal is unchanged.
#pragma once

#include <signal.h>

namespace weft {

class WithoutSignal {
 public:
  /// `number` is a signal that the kernel sends to the writing thread.
  explicit WithoutSignal(int number);
  /// Preserves errno.
  ~WithoutSignal();
  WithoutSignal(const WithoutSignal&) = delete;
  WithoutSignal& operator=(const WithoutSignal&) = delete;

 private:
  int number_;
  sigset_t old_mask_{};
  bool was_pending_ = false;
};

}  // namespace weft
