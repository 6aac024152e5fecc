// RankHost: the ranks of one launch on one host, as whoever watches them sees them: on this host (launch/local_ranks.h), or on
// another through its agent (launch/agent/remote_ranks.h).
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "weft/launch/culprit.h"

namespace weft {

/// Which ranks a host starts, and what they are told of the world.
struct HostStart {
  int first_rank = 0;          ///< the host's ranks have consecutive numbers
  int num_ranks = 1;           ///< on the host
  int world = 1;               ///< ranks on all hosts
  std::string master_address;  ///< MASTER_ADDR
  int master_port = 0;         ///< MASTER_PORT
  int restarts = 0;            ///< of the run so far
  std::string store = {};      ///< "ADDRESS:PORT" of WEFT_STORE; empty: nobody serves one
};

/// Which ranks a signal goes to.
enum class SignalTo {
  all,
  silent  ///< those that have reported no error; the others are about to end by themselves, with a status of their own
};

/// The ranks of one launch on one host. Destroying it kills those that are left.
class RankHost {
 public:
  virtual ~RankHost() = default;
  RankHost(const RankHost&) = delete;
  RankHost& operator=(const RankHost&) = delete;

  /// Adds what to poll for.
  virtual void add_descriptors(std::vector<pollfd>& all) const = 0;
  /// Takes in what has come; never blocks. `ending`: the ranks are being ended, so that what they say is no news and their end
  /// no failure. Throws InputError where the program could not be run.
  virtual void receive(bool ending) = 0;
  /// Sends the signal to the process groups of ranks that have not ended.
  virtual void signal(int number, SignalTo to) = 0;
  /// Whether a rank has not ended, as far as is known.
  virtual bool any_left() const = 0;
  /// For how long nothing has been heard of the host; 0 for this one.
  virtual double silent_s() const = 0;

  /// What is known of each rank, in order.
  const std::vector<RankOutcome>& outcomes() const { return outcomes_; }

 protected:
  RankHost() = default;
  std::vector<RankOutcome> outcomes_;
};

}  // namespace weft
