// Whose run this is, for whoever counts what a machine is used for.
#pragma once

#include <string>

namespace weft {

/// The job that this process belongs to: WEFT_JOB, else as the cluster manager names it: "slurm 4711", "slurm 4711_3" of an
/// array, "pbs 12.head", "lsf 99", "sge 7". Empty outside of one.
std::string cluster_job();

/// The name of the user whose process this is; the number, where the system knows no name.
std::string user_name();

}  // namespace weft
