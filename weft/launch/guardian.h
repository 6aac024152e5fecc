// Guardian: a small process that ends the ranks when the launcher cannot.
//
// The kernel kills a rank when its parent dies (PR_SET_PDEATHSIG), but not what the rank itself started. The guardian holds
// the read end of a pipe whose write end only the launcher keeps: when that end closes, whatever the launcher died of, it
// kills every process group that is still noted and ends. Ranks note themselves before they run the user's program, so no
// grandchild can exist that it does not know of. One process, no memory of its own to speak of.
#pragma once

#include <sys/types.h>

#include "weft/base/file_descriptor.h"

namespace weft {

class Guardian {
 public:
  /// Forks. Call before the first rank is started; `num_groups` are noted at most.
  explicit Guardian(int num_groups);
  /// Ends the guardian and reaps it: the ranks have been ended.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// What note() writes to.
  int pipe() const { return write_end_.get(); }
  /// Notes a group. For the rank itself, between fork and exec.
  static void note(int pipe, pid_t group);
  /// Strikes a note out. For the launcher, while the group's leader is not yet reaped, so that its number cannot stand for
  /// another group.
  void forget(pid_t group);

 private:
  FileDescriptor write_end_;
  pid_t pid_ = -1;
};

}  // namespace weft
