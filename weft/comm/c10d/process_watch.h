// ProcessWatch: which ranks of a c10d group have ended, as far as this rank can tell: at once for processes on its own host;
// for others by a roll-call in the store after something failed.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/backend.h"
#include "weft/comm/process.h"

namespace weft {

class ProcessWatch {
 public:
  /// Exchanges process ids over the plan's store.
  explicit ProcessWatch(const GroupPlan& plan);

  /// A rank of this host whose process has ended, or -1. Costs a system call a rank.
  int ended_rank() const;
  /// Whether another rank has begun a roll-call.
  bool failure_elsewhere();
  /// Answers the roll-call and waits a second for the others: "rank 3 (process 12 on host b) died", or which ranks did not
  /// answer; empty if all did.
  std::string roll_call();

 private:
  std::string identity(int rank) const;

  int rank_;
  std::vector<std::string> hosts_;
  std::vector<int> pids_;
  std::vector<FileDescriptor> watched_;
  Store store_;
};

}  // namespace weft
