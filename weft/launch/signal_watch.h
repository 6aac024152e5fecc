// SignalWatch: the signals that a launcher acts on, received one after another where it waits anyway.
#pragma once

#include <signal.h>

#include <cstdint>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

/// Receives SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless it is ignored) through a descriptor while it lives, and has children
/// wait to be reaped; then puts everything back. No handler, so no global state.
class SignalWatch {
 public:
  /// Throws Error where the system refuses.
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& old_mask() const { return old_mask_; }

  /// The signals that have come in.
  std::vector<int> receive();

 private:
  sigset_t old_mask_{};
  struct sigaction old_child_action_ {};
  FileDescriptor fd_;
};

/// Some parents (timeout, a terminal's shell) send a signal twice: a second one so soon is no second Ctrl-C.
inline constexpr int64_t kSamePress_ns = 200'000'000;

/// What is told at the first Ctrl-C where it saves.
inline constexpr const char* kSavingText = "Ctrl-C: saving, then ending; a second one ends it at once";

/// What people call a signal that is watched for: "Ctrl-C", "SIGTERM".
const char* signal_text(int signal);

}  // namespace weft
