// Starting one rank: fork, its own process group, the ties to launcher and guardian, exec.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

class Guardian;

/// What all ranks of a launch have in common.
struct RankStart {
  std::vector<std::string> command;
  std::vector<std::string> environment;  ///< "KEY=value"
  int standard_input = -1;               ///< -1: inherited
  int standard_output = -1;              ///< -1: inherited
  int standard_error = -1;               ///< -1: as the output
  std::vector<int> inherited;            ///< descriptors the program gets under the same numbers
  Guardian* guardian = nullptr;          ///< that is told of the group; null: none is
  sigset_t signal_mask{};                ///< what the program starts with
};

struct StartedRank {
  pid_t pid = -1;            ///< its process, and its group
  FileDescriptor exec_pipe;  ///< for throw_unless_run()
};

/// Starts a rank. Does not wait for the program, so that a rank which is stopped right away holds up nobody.
StartedRank start_rank(const RankStart& start);

/// Throws InputError when the program could not be run. For a rank that has ended: of another it may not be known yet.
void throw_unless_run(const FileDescriptor& exec_pipe, const std::string& program);

/// One rank's place in the world, as it is told.
struct RankVariables {
  int rank = 0;                       ///< RANK
  int num_ranks = 1;                  ///< WORLD_SIZE
  int local_rank = 0;                 ///< LOCAL_RANK
  int num_local_ranks = 1;            ///< LOCAL_WORLD_SIZE
  std::string address = "127.0.0.1";  ///< MASTER_ADDR
  int port = 0;                       ///< MASTER_PORT
  std::string store = {};             ///< "ADDRESS:PORT" of WEFT_STORE; empty: none
  int threads = 1;                    ///< OMP_NUM_THREADS, where that is unset
};

/// This process's environment with those variables.
std::vector<std::string> rank_environment(const RankVariables& variables);

}  // namespace weft
