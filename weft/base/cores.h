// CPU cores available to this process: its affinity mask, limited by the CPU quota of its control groups (containers).
#pragma once

#include <bitset>
#include <optional>
#include <string>

namespace weft {

struct CgroupFiles {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// Cores, a bit each.
using CoreSet = std::bitset<1024>;

/// The calling thread's affinity mask. On a host with more cores: as many bits as the host has cores, at most all.
CoreSet affinity();

/// Returns the number of cores that this process may use, at least 1. A quota of 1.5 cores counts as 1.
int available_cores(const CgroupFiles& files = {});
/// The same for processes that may use these cores together.
int available_cores(const CoreSet& cores, const CgroupFiles& files = {});

/// Reads OMP_NUM_THREADS. From a list for nested teams ("4,2") it takes the first number; nullopt if the variable is unset.
/// Throws InputError if the value is malformed.
std::optional<int> omp_num_threads();

/// Returns the number of threads that each of `local_ranks` ranks on this host should use: at least 1.
int threads_per_rank(int cores, int local_ranks);

}  // namespace weft
