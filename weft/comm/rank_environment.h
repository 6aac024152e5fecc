// RankEnvironment: which rank this process is and where its world meets, as the environment says.
#pragma once

#include <optional>
#include <string>

namespace weft {

/// What the environment says of a rank.
struct RankEnvironment {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank = {};
  std::optional<int> local_size = {};
  bool one_host = false;         ///< the variables say that all ranks are on this host
  std::string address = {};      ///< where ranks meet, as whoever started them tells; empty: MASTER_ADDR must
  std::optional<int> port = {};  ///< the same; none: MASTER_PORT must
  std::string token = {};        ///< what only the ranks of this job have, for strays, and no secret; empty: nothing is known
};

/// What the environment says, of the first that is set of: torchrun's names (RANK, WORLD_SIZE), Open MPI's, MPICH's and Intel
/// MPI's, SLURM's of a step (base/slurm_step.h); nothing where none is. Throws InputError for a half-set or contradictory
/// environment.
std::optional<RankEnvironment> rank_environment();

/// Where a world's store is, and who serves it.
struct Rendezvous {
  enum class Server {
    launcher,  ///< weft's, at WEFT_STORE
    agent,     ///< torchrun's, at MASTER_ADDR and MASTER_PORT
    rank_zero  ///< of the world, there
  };
  Server server = Server::rank_zero;
  std::string host;
  int port = 0;
  bool loopback = false;  ///< rank 0 serves for this host only
};

/// The rendezvous that the environment tells: MASTER_ADDR, WEFT_PORT or MASTER_PORT, or what is known without them. Throws
/// InputError where it tells none.
Rendezvous rendezvous_from_environment(const RankEnvironment& ranks);

/// The prefix of all keys: a store that outlives a restart of the ranks (torchrun's) still holds those of the ranks before.
std::string key_prefix_from_environment();

}  // namespace weft
