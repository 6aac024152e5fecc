// ProcessGroup: a child in its own process group, from its start until the group is gone.
//
// Ranks, jobs and the ssh processes of other hosts are process groups. The waiter polls for the child's end (pidfd_open(2):
// Linux 5.3 or newer), so nothing needs SIGCHLD. If SIGCHLD is ignored, however, the kernel reaps the child itself and its
// status is lost (SignalWatch).
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/file_descriptor.h"

namespace weft {

class Guardian;

/// How a program is started.
struct ProcessStart {
  std::vector<std::string> command;
  std::vector<std::string> environment = {};  ///< "KEY=value"
  int standard_input = -1;                    ///< -1: inherited
  int standard_output = -1;                   ///< -1: inherited
  int standard_error = -1;                    ///< -1: same as the output
  std::vector<int> inherited = {};            ///< descriptors the program gets under the same numbers
  Guardian* guardian = nullptr;               ///< registers the group; null: not guarded
  sigset_t signal_mask{};                     ///< initial signal mask
};

/// A child and its descendants, as long as they stay in its group. ProcessStart::guardian must outlive it.
class ProcessGroup {
 public:
  /// Starts the child. Does not wait for the program to run, so a child that is stopped immediately blocks nothing. Throws
  /// Error if the system refuses.
  explicit ProcessGroup(const ProcessStart& start);
  /// Kills the group and reaps the child, unless it is already reaped.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Descriptor to poll: readable from the child's end until it is reaped; afterwards poll() skips it.
  pollfd descriptor() const { return {pidfd_.get(), POLLIN, 0}; }
  /// Waits until the child has ended; returns false if it has not by the deadline.
  bool wait(const Deadline& deadline) const;

  /// Returns true if the child is not reaped yet.
  bool is_left() const { return pid_ >= 0; }
  /// Returns true if the child is stopped at this moment. Nothing wakes poll() for that.
  bool is_stopped() const { return is(WSTOPPED); }
  /// Sends the group a signal, and SIGCONT so that a stopped group receives it. No effect once the child is reaped.
  void signal(int number);
  /// Reaps a child that has ended and kills what it left behind. Returns its status once, otherwise nothing. Never blocks.
  std::optional<int> reap();
  /// Throws InputError, once, if the program could not be run. That may not be known before the child has ended, so waits for
  /// at most `patience`.
  void check_run(std::chrono::milliseconds patience = std::chrono::milliseconds(0)) const;

 private:
  bool is(int what) const;
  int end();

  Guardian* guardian_;
  std::string program_;
  FileDescriptor exec_pipe_;  ///< reports why the program could not run
  pid_t pid_;                 ///< of child and group; -1 once reaped
  FileDescriptor pidfd_;
};

}  // namespace weft
