// WithoutFileSizeSignal: while it lives, a write of this thread beyond the limit on file sizes (ulimit -f, RLIMIT_FSIZE) fails
// with EFBIG, as one on a full disk does with ENOSPC, instead of ending the process by SIGXFSZ. For those who write files: they
// have a message that says which. The program's own handling of the signal stays as it is.
#pragma once

#include <signal.h>

namespace weft {

class WithoutFileSizeSignal {
 public:
  WithoutFileSizeSignal();
  /// Leaves errno alone.
  ~WithoutFileSizeSignal();
  WithoutFileSizeSignal(const WithoutFileSizeSignal&) = delete;
  WithoutFileSizeSignal& operator=(const WithoutFileSizeSignal&) = delete;

 private:
  sigset_t old_mask_{};
  bool was_pending_ = false;
};

}  // namespace weft
