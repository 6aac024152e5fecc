// Joining a world: from a place that the environment names to the store that its ranks share and the hosts they are on.
//
// Each rank makes the same few trips to the store, whatever the number of ranks: connecting, which takes one, saying which
// process has the rank, one, and the gathering of all hosts, one. Each gets one answer that names the hosts of all, neighbours
// of one host once.
#pragma once

#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/comm/rank_environment.h"
#include "weft/comm/store/store.h"

namespace weft {

/// A rank's place in a world that is about to meet.
struct Place {
  RankEnvironment ranks;
  Rendezvous rendezvous;
  std::string token;   ///< of the job, or empty
  std::string prefix;  ///< of all keys
  std::string host;    ///< of this rank, as this_host() tells it
};

/// The place that the environment tells of. Throws InputError where it does not say where ranks meet.
Place place_from_environment(const RankEnvironment& mine);

struct Joined {
  Store store;
  std::vector<std::string> hosts;  ///< by rank
};

/// Meets all other ranks. Throws CommError where some do not come, naming them, and InputError where ranks do not count the
/// same number of ranks, or two have the same number.
Joined join_world(const Place& place, const Deadline& deadline);

}  // namespace weft
