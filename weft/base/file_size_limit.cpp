#include "weft/base/file_size_limit.h"

#include <cerrno>
#include <ctime>

namespace weft {
namespace {

sigset_t only_file_size() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

bool is_pending() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGXFSZ) == 1;
}

}  // namespace

// The kernel sends the signal to the thread that writes, so blocking and taking it there is seen by nobody else.
WithoutFileSizeSignal::WithoutFileSizeSignal() : was_pending_(is_pending()) {
  const sigset_t set = only_file_size();
  pthread_sigmask(SIG_BLOCK, &set, &old_mask_);
}

WithoutFileSizeSignal::~WithoutFileSizeSignal() {
  const int error = errno;
  if (!was_pending_ && is_pending()) {
    const sigset_t set = only_file_size();
    const timespec at_once{};
    while (sigtimedwait(&set, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  errno = error;
}

}  // namespace weft
