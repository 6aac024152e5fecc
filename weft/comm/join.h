// Joining a world: from a rank's place in the environment, finds the store that the ranks share and the hosts they run on.
//
// Each rank makes the same few trips to the store, whatever the number of ranks: one to connect, one to register its process
// for the rank, and one to gather all hosts, whose answer lists each run of ranks on one host only once.
#pragma once

#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/comm/rank_environment.h"
#include "weft/comm/store/store.h"

namespace weft {

/// A rank's place in a world whose ranks have not met yet.
struct Place {
  RankEnvironment ranks;
  Rendezvous rendezvous;
  std::string token;   ///< the job's secret, or empty
  std::string prefix;  ///< prefix of all keys
  std::string host;    ///< this rank's host, from this_host()
};

/// Reads the place from the environment. Throws InputError if the environment does not say where ranks meet.
Place place_from_environment(const RankEnvironment& mine);

struct Joined {
  Store store;
  std::vector<std::string> hosts;  ///< by rank
};

/// Meets all other ranks. Throws CommError that names the ranks that did not arrive, and InputError if world sizes differ or
/// two processes have the same rank.
Joined join_world(const Place& place, const Deadline& deadline);

}  // namespace weft
