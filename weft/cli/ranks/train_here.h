// Runs one rank of a training in this process: `weft train` without starting other ranks, and each rank that it starts.
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

/// Command line of `weft train`.
struct TrainArguments {
  std::string recipe;
  std::string ranks;  ///< -n: "4" or "2:4"; empty: not given
  std::optional<int64_t> restarts;
  double grow_after_s = 600.0;
  HostOptions hosts;
  std::vector<std::string> overrides;
  std::string summary, save, trace;
  std::optional<int64_t> trace_step;
  std::string profile;  ///< --profile: "5" or "5-7"; empty: not given
  std::string resume;
  bool resume_anyway = false;
};

TrainOptions train_options(const TrainArguments& arguments);

/// Throws InputError for files that cannot be written or are the same. Only for the rank that writes, or its launcher: other
/// ranks may have another working folder, or lack the files' folders.
void check_outputs(const TrainArguments& arguments, const Recipe& recipe);

/// Trains; returns the exit status (launch/exit_status.h).
int train_here(const Recipe& recipe, const World& world, const TrainArguments& arguments);

/// Ends the process, without waiting for threads that still run, nor for destructors of static objects: LibTorch's take a third
/// of the time of a short command.
[[noreturn]] void leave(int status);

}  // namespace weft
