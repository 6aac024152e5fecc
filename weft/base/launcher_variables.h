// Environment variables by which a launcher (weft's or torchrun's) gives a process its rank and its job. They apply only to
// that process: a run or job that it starts must not inherit them.
#pragma once

#include <string_view>

namespace weft {

/// Scope of a variable.
enum class VariableScope {
  place,  ///< one rank, or one host's launcher
  job,    ///< all ranks of a run
  host,   ///< everything on this host
};

/// Returns whether a variable is in the list with that scope.
bool is_launcher_variable(std::string_view name, VariableScope scope);
/// Returns whether a variable is in the list.
bool is_launcher_variable(std::string_view name);

/// Returns whether this process is a rank started by weft's launcher, or a child of such a rank; false for ranks that another
/// launcher (torchrun) started inside one.
bool is_rank_of_launcher();

/// Removes the place variables from this process's environment, for a process that is neither a rank nor a host's launcher, so
/// its children do not inherit them. Also removes SLURM_STEP_ID and, in a rank of weft's launcher, that job's secret.
void leave_outer_place();

}  // namespace weft
