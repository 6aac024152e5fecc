// One rank of a training in this process: what `weft train` does without starting others, and what each rank that it starts
// does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/cli/options/host_options.h"
#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"
#include "weft/train/run/train.h"

namespace weft {

/// The command line of `weft train`.
struct TrainArguments {
  std::string recipe;
  std::string ranks;  ///< -n: "4" or "2:4"; empty: not told
  std::optional<int64_t> restarts;
  double grow_after_s = 600.0;
  HostOptions hosts;
  std::vector<std::string> overrides;
  std::string summary, save, trace;
  std::optional<int64_t> trace_step;
  std::string resume;
  bool resume_anyway = false;
};

TrainOptions train_options(const TrainArguments& arguments);

/// Throws InputError for files that cannot be written, or are one. By whoever writes them, or starts the rank that does: other
/// ranks may have another working folder, or none of these.
void check_outputs(const TrainArguments& arguments);

/// Trains; the exit status (launch/exit_status.h).
int train_here(const Recipe& recipe, const World& world, const TrainArguments& arguments);

/// Ends the process while a thread goes on that would hold up its end in order.
[[noreturn]] void leave_threads(int status);

}  // namespace weft
