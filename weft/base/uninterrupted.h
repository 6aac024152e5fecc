// uninterrupted: a system call that signals do not end.
#pragma once

#include <cerrno>

namespace weft {

/// What `call` returns, which is called again while a signal interrupts it (-1 and EINTR).
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace weft
