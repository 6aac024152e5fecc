#include "weft/launch/launcher.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/launch/hosts.h"
#include "weft/launch/rank_limits.h"
#include "weft/launch/rank_watch.h"
#include "weft/launch/run_status.h"
#include "weft/launch/signal_watch.h"

namespace weft {

LaunchOutcome launch_once(const LaunchOptions& options) {
  if (options.hosts == nullptr) check_rank_count(options.num_ranks);
  if (options.command.empty()) throw InputError("no program to run");
  const std::unique_ptr<Hosts> alone = options.hosts == nullptr ? this_host_alone() : nullptr;
  std::optional<SignalWatch> signals;
  if (options.signals == nullptr) signals.emplace();
  RankWatch watch(options, alone ? *alone : *options.hosts, signals ? *signals : *options.signals);
  watch.start();
  if (options.status != nullptr) options.status->set_running(options.num_ranks);
  watch.watch();
  return watch.outcome();
}

LaunchOutcome interrupted_by(int signal) {
  return {.status = 128 + signal, .error = fmt::format("ended by {}", signal_text(signal)), .interrupted = signal};
}

int launch(const LaunchOptions& options, std::string& error) {
  LaunchOutcome outcome = launch_once(options);
  error = std::move(outcome.error);
  return outcome.status;
}

}  // namespace weft
