// Checks of a host that need no other rank: cores, memory, limits of processes, shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/train/check/check_line.h"

namespace weft {

/// What a job's ranks need of one host.
struct HostNeeds {
  int ranks = 1;    ///< on the host
  int threads = 1;  ///< per rank
  bool on_gpus = false;
};

/// Files and folders that describe the host; tests replace them.
struct HostFiles {
  std::string memory = "/proc/meminfo";
  std::string shared_memory = "/dev/shm";
  std::string infiniband = "/sys/class/infiniband";
  std::string cgroup = "/sys/fs/cgroup";
};

/// Cores that the ranks may use (affinity, control groups) beside the threads that they start.
CheckLine check_cores(const HostNeeds& needs);
/// Memory that is available now, also within the control group. Fails below 0.5 GiB per rank.
CheckLine check_host_memory(const HostNeeds& needs, const HostFiles& files = {});
/// This process's limits (ulimit): open files, processes, and locked memory, which only InfiniBand needs.
CheckLine check_limits(const HostNeeds& needs, const HostFiles& files = {});
/// /dev/shm: writes a file there, which is removed at once. Only ranks on GPUs need it, for NCCL; for others it never fails.
CheckLine check_shared_memory(const HostNeeds& needs, const HostFiles& files = {});

/// All of them.
std::vector<CheckLine> check_host(const HostNeeds& needs, const HostFiles& files = {});

}  // namespace weft
