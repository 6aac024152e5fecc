// ProcessGroup: a child in a process group of its own, from its start until nothing of the group is left.
//
// Ranks, jobs and the ssh of other hosts are such. Whoever waits polls for the child's end (pidfd_open(2): Linux 5.3 and
// newer), so that nobody needs SIGCHLD. Where that is ignored, though, the kernel reaps the child itself, and its status is
// lost (SignalWatch).
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
  int standard_error = -1;                    ///< -1: as the output
  std::vector<int> inherited = {};            ///< descriptors the program gets under the same numbers
  Guardian* guardian = nullptr;               ///< that is told of the group; null: none is
  sigset_t signal_mask{};                     ///< what the program starts with
};

/// A child and what it starts, as far as that stays in its group. ProcessStart::guardian outlives it.
class ProcessGroup {
 public:
  /// Starts the child. Does not wait for the program, so that one which is stopped right away holds up nobody. Throws Error
  /// where the system refuses.
  explicit ProcessGroup(const ProcessStart& start);
  /// Kills the group, where the child is not reaped, and reaps it.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// What to poll for: readable from the child's end until it is reaped; poll() passes it over then.
  pollfd descriptor() const { return {pidfd_.get(), POLLIN, 0}; }
  /// Waits until the child has ended; false: it has not by then.
  bool wait(const Deadline& deadline) const;

  /// Whether the child is not reaped yet.
  bool is_left() const { return pid_ >= 0; }
  /// Whether the child is stopped at this moment. Nothing wakes poll() for that.
  bool is_stopped() const { return is(WSTOPPED); }
  /// Sends the group a signal, and has it run, to hear that. Nothing once the child is reaped.
  void signal(int number);
  /// Reaps a child that has ended, and kills what it left behind. What waitpid() tells of it, once; else nothing. Never blocks.
  std::optional<int> reap();
  /// Throws InputError, once, where the program could not be run. Before the child has ended that may not be known yet: it is
  /// waited for so long at most.
  void check_run(std::chrono::milliseconds patience = std::chrono::milliseconds(0)) const;

 private:
  bool is(int what) const;
  int end();

  Guardian* guardian_;
  std::string program_;
  FileDescriptor exec_pipe_;  ///< what kept the program from running
  pid_t pid_;                 ///< of child and group; -1 once it is reaped
  FileDescriptor pidfd_;
};

}  // namespace weft
