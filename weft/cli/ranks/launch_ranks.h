// Starting ranks from the command line, on this host or several, and how the outcome is shown.
#pragma once

#include <optional>
#include <string>

#include "weft/cli/options/host_options.h"
#include "weft/launch/launcher.h"
#include "weft/launch/restarts.h"

namespace weft {

/// Where and how ranks are started.
struct LaunchPlace {
  HostPlan plan = {};
  HostOptions options = {};
  int local_ranks = 1;  ///< of this host, with --nodes
};

/// The limits of a run that is never started again.
RestartOptions no_restarts(int num_ranks);

/// Runs the ranks and serves their store, starts them again where they fail as the limits allow, with a line on each failure to
/// standard error; prints the culprit's error as the last line, returns the exit status. As another node than the first:
/// until that one says how the run has ended.
int launch_ranks(LaunchOptions options, RestartOptions restarts, const LaunchPlace& place = {});

/// Throws InputError where `num_ranks`, as -n tells them, do not go with the hosts.
void check_rank_total(const LaunchPlace& place, std::optional<int> num_ranks);

/// Prints a line to standard error, fit for a terminal; nothing for an empty one.
void tell_line(const std::string& line);

}  // namespace weft
