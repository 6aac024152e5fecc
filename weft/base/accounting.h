// Job and user of this process, for usage accounting.
#pragma once

#include <string>

namespace weft {

/// Returns the name of this process's job: WEFT_JOB, else the cluster manager's job id: "slurm 4711", "slurm 4711_3" (array
/// task), "pbs 12.head", "lsf 99", "sge 7". Empty outside a job.
std::string cluster_job();

/// Returns the name of this process's user, or the user id if the system has no name for it.
std::string user_name();

}  // namespace weft
