// Starting one rank: fork, its own process group, the ties to launcher and guardian, exec.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

/// What all ranks of a launch have in common.
struct RankStart {
  std::vector<std::string> command;
  std::vector<std::string> environment;  ///< "KEY=value"
  int standard_input = -1;               ///< -1: inherited
  std::vector<int> inherited;            ///< descriptors the program gets under the same numbers
  int guardian_pipe = -1;
  sigset_t signal_mask{};  ///< what the program starts with
};

/// Returns the rank's process, and group, number. Throws InputError when the program cannot be run.
pid_t start_rank(const RankStart& start);

/// A rendezvous port on the loopback interface.
struct RendezvousPort {
  FileDescriptor socket;  ///< listening; empty for a port that was only looked up
  int port = 0;
};
RendezvousPort open_rendezvous_port(bool keep_listening);

/// One rank of `num_ranks` on one host.
struct RankVariables {
  int rank = 0;
  int num_ranks = 1;
  int port = 0;       ///< MASTER_PORT
  int store_fd = -1;  ///< WEFT_STORE_FD; -1: none
  int error_fd = -1;  ///< WEFT_ERROR_FD
  int threads = 1;    ///< OMP_NUM_THREADS, where that is unset
};

/// This process's environment with those variables.
std::vector<std::string> rank_environment(const RankVariables& variables);

}  // namespace weft
