// Starts ranks from the command line, on this host or several, and prints the outcome.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/cli/options/host_options.h"
#include "weft/launch/launcher.h"
#include "weft/launch/restarts.h"

namespace weft {

/// Place and options of a launch.
struct LaunchPlace {
  HostPlan plan = {};
  HostOptions options = {};
  int local_ranks = 1;  ///< on this host, with --nodes
  /// Returns the line to print about how the ranks ended; where this command leads them.
  std::function<std::string(const LaunchOutcome& outcome)> told = [](const LaunchOutcome& outcome) { return outcome.error; };
};

/// Limits of a run that is never restarted.
RestartOptions no_restarts(int num_ranks);

/// Runs the ranks and serves their store. Restarts failed ranks within the limits, with a line per failure on standard error.
/// Prints the culprit's error as the last line and returns the exit status. On any node except the first, runs until the first
/// node reports how the run ended.
int launch_ranks(LaunchOptions options, RestartOptions restarts, const LaunchPlace& place = {});

/// Throws InputError if `num_ranks`, as given by -n, does not fit the hosts.
void check_rank_total(const LaunchPlace& place, std::optional<int> num_ranks);

/// Prints a line to standard error, safe for a terminal; nothing if the line is empty.
void print_error_line(const std::string& line);

}  // namespace weft
