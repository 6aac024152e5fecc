// ProcessGroup: a child in a process group of its own, from its start until nothing of the group is left.
//
// Ranks, jobs and the ssh of other hosts are such. Whoever waits polls for the child's end (pidfd_open(2): Linux 5.3 and
// newer), so that nobody needs SIGCHLD. Where that is ignored, though, the kernel reaps the child itself, and its status is
// lost (SignalWatch).
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "weft/base/deadline.h"
#include "weft/base/file_descriptor.h"

namespace weft {

class Guardian;
struct RankStart;

/// A child and what it starts, as far as that stays in its group. RankStart::guardian outlives it.
class ProcessGroup {
 public:
  /// Starts the child. Throws Error where the system refuses.
  explicit ProcessGroup(const RankStart& start);
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
  bool is_stopped() const;
  /// Sends the group a signal, and has it run, to hear that. Nothing once the child is reaped.
  void signal(int number);
  /// Reaps a child that has ended, and kills what it left behind. What waitpid() tells of it, once; else nothing. Never blocks.
  std::optional<int> reap();
  /// Throws InputError, once, where the program could not be run. Before the child has ended that may not be known yet: it is
  /// waited for so long at most.
  void check_run(std::chrono::milliseconds patience = std::chrono::milliseconds(0)) const;

 private:
  int end();

  Guardian* guardian_;
  std::string program_;
  pid_t pid_ = -1;  ///< of child and group; -1 once it is reaped
  FileDescriptor exec_pipe_, pidfd_;
};

}  // namespace weft
