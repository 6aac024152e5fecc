// uninterrupted: a system call that retries when a signal interrupts it.
#pragma once

#include <cerrno>

namespace weft {

/// Returns the result of `call`, retried while a signal interrupts it (-1 and EINTR).
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace weft
