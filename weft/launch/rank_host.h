// RankHost: the ranks of one launch on one host, as their watcher sees them: on this host (launch/local_ranks.h), or on another
// through its agent (launch/agent/remote_ranks.h).
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "weft/launch/culprit.h"

namespace weft {

/// The ranks that a host starts, and their view of the world.
struct HostStart {
  int first_rank = 0;          ///< the host's ranks are numbered consecutively
  int num_ranks = 1;           ///< on this host
  int world = 1;               ///< number of ranks on all hosts
  std::string master_address;  ///< MASTER_ADDR
  int master_port = 0;         ///< MASTER_PORT
  int restarts = 0;            ///< restarts of the run so far
  std::string store = {};      ///< "ADDRESS:PORT" of WEFT_STORE; empty: no store
};

/// Ranks that receive a signal.
enum class SignalTo {
  all,
  silent  ///< ranks that have reported no error; the others are about to end anyway, with their own status
};

/// The ranks of one launch on one host. The destructor kills the remaining ones.
class RankHost {
 public:
  virtual ~RankHost() = default;
  RankHost(const RankHost&) = delete;
  RankHost& operator=(const RankHost&) = delete;

  /// Adds the descriptors to poll.
  virtual void add_descriptors(std::vector<pollfd>& all) const = 0;
  /// Processes arrived messages; never blocks. `ending`: the launcher is ending the ranks, so their errors no longer matter and
  /// their end is not a failure. Throws InputError if the program could not be run.
  virtual void receive(bool ending) = 0;
  /// Sends the signal to the process groups of ranks that have not ended.
  virtual void signal(int number, SignalTo to) = 0;
  /// Returns true if a rank has not ended, as far as is known.
  virtual bool any_left() const = 0;
  /// Seconds since the last message from the host; 0 for this host.
  virtual double silent_s() const = 0;

  /// State of each rank, in order.
  const std::vector<RankOutcome>& outcomes() const { return outcomes_; }

 protected:
  RankHost() = default;
  std::vector<RankOutcome> outcomes_;
};

}  // namespace weft
