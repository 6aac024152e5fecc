// LocalRanks: starts, signals and reaps the ranks of one launch on this host, and receives their messages.
//
// Each rank is a child in its own process group. Ranks and their descendants die with this process, even on SIGKILL
// (launch/guardian.h).
#pragma once

#include <signal.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "weft/launch/error_pipe.h"
#include "weft/launch/guardian.h"
#include "weft/launch/output_prefix.h"
#include "weft/launch/process_group.h"
#include "weft/launch/rank_host.h"

namespace weft {

struct LaunchOptions;

/// How ranks are started.
struct LocalRanksOptions {
  std::vector<std::string> command;           ///< argv of every rank
  std::vector<std::string> environment = {};  ///< "KEY=value", in addition to the rank's place in the world
  std::vector<int> inherited = {};            ///< descriptors that ranks get under the same numbers
  sigset_t signal_mask{};                     ///< initial signal mask
  std::string host = {};                      ///< name of this host in errors; empty: not needed
  bool prefix = false;                        ///< prefix each output line with the rank (launch/output_prefix.h)
};

/// Extracts these options from the options of a launch.
LocalRanksOptions local_ranks_options(const LaunchOptions& options, const sigset_t& mask);

/// The ranks of a launch on this host.
class LocalRanks : public RankHost {
 public:
  /// Starts only the guardian.
  LocalRanks(LocalRanksOptions options, int num_ranks);

  /// Starts the ranks, once. Throws Error if the system refuses.
  void start(const HostStart& start);

  void add_descriptors(std::vector<pollfd>& all) const override;
  void receive(bool ending) override;
  void signal(int number, SignalTo to) override;
  bool any_left() const override;
  double silent_s() const override { return 0.0; }

 private:
  void reap(bool ending);

  LocalRanksOptions options_;
  ErrorPipe errors_;
  Guardian guardian_;
  int first_rank_ = 0;
  std::unique_ptr<OutputPrefix> output_;  ///< ends after the ranks that write to it
  std::deque<ProcessGroup> processes_;    ///< same indices as outcomes_
};

}  // namespace weft
