// The handler of SIGSEGV: names the device's or pinned memory that the host has touched, and ends the process by that signal.
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "weft/checked_device/memory.h"
#include "weft/checked_device/order.h"
#include "weft/checked_device/pinned.h"

namespace weft::checked_device {

namespace {

struct sigaction before;

/// Other threads hold it for a moment at a time, unless one of them waits for this one.
bool lock_in_handler() {
  for (int tries = 0; tries < 5'000; ++tries) {
    if (order_mutex().try_lock()) return true;
    usleep(1'000);
  }
  return false;
}

void on_fault(int, siginfo_t* info, void*) {
  char text[600] = "checked device: the host touches ";
  const size_t start = std::strlen(text);
  if (lock_in_handler()) {
    if (is_open(info->si_addr)) {  // another thread has waited for it meanwhile
      order_mutex().unlock();
      return;
    }
    int length = describe_pinned(info->si_addr, text + start, sizeof text - start);
    if (length == 0) length = describe_address(info->si_addr, text + start, sizeof text - start);
    if (length > 0) {
      const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
      if (written > 0 && write(STDERR_FILENO, "\n", 1) == 1) {
        void* frames[24];
        const int depth = backtrace(frames, 24);
        if (depth > 2) backtrace_symbols_fd(frames + 2, std::min(depth - 2, 10), STDERR_FILENO);
      }
    }
    order_mutex().unlock();
  }
  sigaction(SIGSEGV, &before, nullptr);  // the instruction runs again, for the handler before this one
}

}  // namespace

void install_fault_handler() {
  void* warm[2];
  backtrace(warm, 2);  // loads what it needs, which a handler must not do
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &before);
}

}  // namespace weft::checked_device
