// SignalWatch: receives the signals that a launcher acts on, one by one, in its event loop.
#pragma once

#include <signal.h>

#include <cstdint>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

/// While it lives, receives SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless ignored) through a descriptor and keeps ended children
/// reapable; the destructor restores the earlier settings. Installs no signal handler, so there is no global state.
class SignalWatch {
 public:
  /// Throws Error if the system refuses.
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& old_mask() const { return old_mask_; }

  /// Returns the signals that have arrived.
  std::vector<int> receive();

 private:
  sigset_t old_mask_{};
  struct sigaction old_child_action_ {};
  FileDescriptor fd_;
};

/// Some parents (timeout, a terminal's shell) send a signal twice: a repeat within this time is not a second Ctrl-C.
inline constexpr int64_t kSamePress_ns = 200'000'000;

/// Printed at the first Ctrl-C if the run saves.
inline constexpr const char* kSavingText = "Ctrl-C: saving, then ending; a second one ends it at once";

/// Common name of a watched signal: "Ctrl-C", "SIGTERM".
const char* signal_text(int signal);

}  // namespace weft
