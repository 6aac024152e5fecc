// Hosts: where a launch's ranks run: on this host alone, or on several whose agents have joined (launch/agent/head.h).
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

/// What has been started.
struct StartedRanks {
  std::vector<std::unique_ptr<RankHost>> hosts;  ///< in the order of their ranks
  std::shared_ptr<void> server;                  ///< serves the store while it lives
};

/// A signal that a host was sent and passes on.
struct HostSignal {
  int number = 0;
  int node = 0;  ///< which host; a second one from the same is meant
};

/// Where ranks run. All calls come from one thread.
class Hosts {
 public:
  virtual ~Hosts() = default;
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  /// Starts the ranks, consecutive numbers on each host. `mask` is what they start with.
  virtual StartedRanks start(const LaunchOptions& options, const sigset_t& mask) = 0;
  /// Adds what to poll for, besides what each RankHost adds.
  virtual void add_descriptors(std::vector<pollfd>& all) const = 0;
  /// Takes in what has come; never blocks.
  virtual void receive() = 0;
  /// Signals that hosts have passed on since the last call.
  virtual std::vector<HostSignal> signals() = 0;
  /// Ranks that the hosts bear which are there now; 0 where they are too few to start on.
  virtual int capacity() const = 0;
  /// Ranks of the fewest hosts that a launch may be made on, of those that are there now the ones with the fewest.
  virtual int least_capacity() const = 0;
  /// Waits until all hosts are there; at a second call, or once the deadline has passed, also where those that are there do, as
  /// `enough` says of their capacity, which is waited for while it says nothing yet. Returns the signal that came meanwhile, 0
  /// for none. Throws Error that names the missing ones when the deadline has passed.
  virtual int gather(SignalWatch& signals, const std::function<std::optional<bool>(int capacity)>& enough) = 0;

 protected:
  Hosts() = default;
};

/// This host alone.
std::unique_ptr<Hosts> this_host_alone();

}  // namespace weft
