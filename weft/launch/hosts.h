// Hosts: where a launch's ranks run: on this host only, or on several hosts whose agents have joined (launch/agent/head.h).
#pragma once

#include <poll.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/launch/rank_host.h"

namespace weft {

class SignalWatch;
struct LaunchOptions;

/// The ranks that were started.
struct StartedRanks {
  std::vector<std::unique_ptr<RankHost>> hosts;  ///< in the order of their ranks
  std::shared_ptr<void> server;                  ///< serves the store while it lives
};

/// A signal that a host received and forwards.
struct HostSignal {
  int number = 0;
  int node = 0;  ///< which host; a second signal counts only if it comes from the same host
};

/// Where ranks run. All calls come from one thread.
class Hosts {
 public:
  virtual ~Hosts() = default;
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  /// Starts the ranks, numbered consecutively on each host, with signal mask `mask`.
  virtual StartedRanks start(const LaunchOptions& options, const sigset_t& mask) = 0;
  /// Adds the descriptors to poll, besides those of each RankHost.
  virtual void add_descriptors(std::vector<pollfd>& all) const = 0;
  /// Processes arrived messages; never blocks.
  virtual void receive() = 0;
  /// Signals that hosts have forwarded since the last call.
  virtual std::vector<HostSignal> signals() = 0;
  /// Ranks that the connected hosts have room for; 0 if there are too few hosts to start on.
  virtual int capacity() const = 0;
  /// Ranks on the fewest hosts that a launch may use, counting the connected hosts with the fewest ranks.
  virtual int least_capacity() const = 0;
  /// Waits until all hosts have joined. From the second call on, or after the deadline, the hosts that have joined suffice if
  /// `enough` accepts their capacity; if it returns nullopt (not known yet), the wait continues. Returns a signal received
  /// meanwhile, or 0. Throws Error with the missing hosts after the deadline.
  virtual int gather(SignalWatch& signals, const std::function<std::optional<bool>(int capacity)>& enough) = 0;

 protected:
  Hosts() = default;
};

/// Returns this host only.
std::unique_ptr<Hosts> this_host_alone();

}  // namespace weft
