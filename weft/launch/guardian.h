// Guardian: a small process that ends the ranks if the launcher cannot.
//
// The kernel kills a rank when its parent dies (PR_SET_PDEATHSIG), but not the processes that the rank itself started. The
// guardian holds the read end of a pipe whose write end only the launcher keeps: when that end closes, for any reason, it kills
// every process group still on its list and ends. Ranks register before they run the user's program, so every grandchild is
// covered. It is one process that takes almost no memory.
#pragma once

#include <sys/types.h>

#include "weft/base/file_descriptor.h"

namespace weft {

class Guardian {
 public:
  /// Forks. Call before the first rank starts; at most `num_groups` groups can be registered.
  explicit Guardian(int num_groups);
  /// Ends the guardian and reaps it; the ranks must have ended.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// The descriptor to pass to note().
  int pipe() const { return write_end_.get(); }
  /// Registers a group. Called by the rank itself, between fork and exec.
  static void note(int pipe, pid_t group);
  /// Removes a group. The launcher calls it before it reaps the group's leader, so that the number cannot belong to another
  /// group yet.
  void forget(pid_t group);

 private:
  FileDescriptor write_end_;
  pid_t pid_ = -1;
};

}  // namespace weft
