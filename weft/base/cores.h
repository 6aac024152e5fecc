// How many cores this process may use: its affinity mask, cut by the CPU quota of its control groups (containers).
#pragma once

#include <string>

namespace weft {

struct CgroupFiles {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// Cores that this process may use, at least 1. A quota of 1.5 cores counts as 1.
int available_cores(const CgroupFiles& files = {});

/// Threads that each of `local_ranks` ranks on this host should use: at least 1.
int threads_per_rank(int cores, int local_ranks);

}  // namespace weft
