// Environment variables by which a launcher (weft's or torchrun's) tells a process its place: one list of them. They hold for
// the process that they were set for: whatever that starts in turn as a run or a job of its own must not find them.
#pragma once

#include <string_view>

namespace weft {

/// Whom a variable means.
enum class VariableScope {
  place,  ///< one rank, or one host's launcher
  job,    ///< all ranks of a run
  host,   ///< whatever runs on this host
};

/// Whether a variable is one of the list, and means that.
bool is_launcher_variable(std::string_view name, VariableScope scope);
/// Whether it is one of the list.
bool is_launcher_variable(std::string_view name);

/// Whether this process is a rank that weft's launcher started, or one that this rank runs: not so for ranks that something
/// else (torchrun) started inside one.
bool is_rank_of_launcher();

/// Removes the variables of a place from this process's environment, as it is no rank and no host's launcher, and so that
/// nothing that it starts finds them: also that srun started it, and in a rank of weft's launcher the secret of that job.
void leave_outer_place();

}  // namespace weft
