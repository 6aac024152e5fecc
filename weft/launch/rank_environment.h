// A rank's place in the world, as passed in its environment.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Variables that describe one rank's place in the world.
struct RankVariables {
  int rank = 0;                       ///< RANK
  int num_ranks = 1;                  ///< WORLD_SIZE
  int local_rank = 0;                 ///< LOCAL_RANK
  int num_local_ranks = 1;            ///< LOCAL_WORLD_SIZE
  std::string address = "127.0.0.1";  ///< MASTER_ADDR
  int port = 0;                       ///< MASTER_PORT
  std::string store = {};             ///< "ADDRESS:PORT" of WEFT_STORE; empty: no store
  int threads = 1;                    ///< OMP_NUM_THREADS, if unset
};

/// Returns this process's environment with those variables.
std::vector<std::string> rank_environment(const RankVariables& variables);

}  // namespace weft
