// RankEnvironment: this process's rank and its world's meeting place, from the environment.
#pragma once

#include <optional>
#include <string>

namespace weft {

/// A rank as described by the environment.
struct RankEnvironment {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank = {};
  std::optional<int> local_size = {};
  bool one_host = false;         ///< the variables say that all ranks are on this host
  std::string address = {};      ///< meeting address from the launcher; empty: MASTER_ADDR is required
  std::optional<int> port = {};  ///< meeting port from the launcher; nullopt: MASTER_PORT is required
  std::string token = {};        ///< keeps processes of other jobs out, but not secret; empty: unknown
};

/// Reads the first set of variables present: torchrun's (RANK, WORLD_SIZE), Open MPI's, MPICH's and Intel MPI's, or those of a
/// SLURM step (base/slurm_step.h); nullopt if there are none. Throws InputError for an incomplete or contradictory environment.
std::optional<RankEnvironment> rank_environment();

/// Address of a world's store, and its server.
struct Rendezvous {
  enum class Server {
    launcher,  ///< weft's launcher, at WEFT_STORE
    agent,     ///< torchrun's agent, at MASTER_ADDR and MASTER_PORT
    rank_zero  ///< rank 0 of the world, at the same address
  };
  Server server = Server::rank_zero;
  std::string host;
  int port = 0;
  bool loopback = false;  ///< rank 0 serves on the loopback interface only
};

/// Returns the rendezvous from the environment: MASTER_ADDR, WEFT_PORT or MASTER_PORT, or the defaults in `ranks`. Throws
/// InputError if the environment names no rendezvous.
Rendezvous rendezvous_from_environment(const RankEnvironment& ranks);

/// Returns the rendezvous that rank 0 serves at `address`, "HOST:PORT" or "[IPV6]:PORT". Throws InputError for another text.
Rendezvous rendezvous_at(const std::string& address);

/// Returns the prefix of all keys: a store that outlives restarts (torchrun's) still holds the previous ranks' keys.
std::string key_prefix_from_environment();

}  // namespace weft
