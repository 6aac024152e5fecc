#include "weft/base/without_signal.h"

#include <cerrno>
#include <ctime>

#include "weft/base/uninterrupted.h"

namespace weft {
namespace {

sigset_t only(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  return set;
}

bool is_pending(int number) {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, number) == 1;
}

}  // namespace

// The kernel signals the writing thread, so blocking and consuming the signal there affects no other thread.
WithoutSignal::WithoutSignal(int number) : number_(number), was_pending_(is_pending(number)) {
  const sigset_t set = only(number_);
  pthread_sigmask(SIG_BLOCK, &set, &old_mask_);
}

WithoutSignal::~WithoutSignal() {
  const int error = errno;
  if (!was_pending_ && is_pending(number_)) {
    const sigset_t set = only(number_);
    const timespec at_once{};
    uninterrupted([&] { return sigtimedwait(&set, nullptr, &at_once); });
  }
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  errno = error;
}

}  // namespace weft
