// SignalWatch: the signals that a launcher acts on, received one after another where it waits anyway.
#pragma once

#include <signal.h>

#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

/// Receives SIGINT, SIGTERM, SIGUSR1, SIGHUP (unless it is ignored) and SIGCHLD through a descriptor while it lives, then puts
/// everything back. No handler, so no global state.
class SignalWatch {
 public:
  /// Throws Error where the system refuses.
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& old_mask() const { return old_mask_; }

  /// The signals that have come in, SIGCHLD left out.
  std::vector<int> receive();

 private:
  sigset_t old_mask_{};
  struct sigaction old_child_action_ {};
  FileDescriptor fd_;
};

/// What people call a signal that is watched for: "Ctrl-C", "SIGTERM".
const char* signal_text(int signal);

}  // namespace weft
