// How many cores this process may use: its affinity mask, cut by the CPU quota of its control groups (containers).
#pragma once

#include <optional>
#include <string>

namespace weft {

struct CgroupFiles {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// Cores that this process may use, at least 1. A quota of 1.5 cores counts as 1.
int available_cores(const CgroupFiles& files = {});

/// What OMP_NUM_THREADS says of a process's threads: of a list, which is one a level of nested teams ("4,2"), the first; none
/// where it is not set. Throws InputError for what is no such list.
std::optional<int> omp_num_threads();

/// Threads that each of `local_ranks` ranks on this host should use: at least 1.
int threads_per_rank(int cores, int local_ranks);

}  // namespace weft
