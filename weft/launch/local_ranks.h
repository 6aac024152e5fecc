// LocalRanks: the ranks of one launch on this host: starts them, signals them, reaps them and reads what they say.
//
// Each is a child in its own process group. They and what they started die with this process, even when it is killed with
// SIGKILL (launch/guardian.h).
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

/// What ranks are started as.
struct LocalRanksOptions {
  std::vector<std::string> command;           ///< argv of every rank
  std::vector<std::string> environment = {};  ///< "KEY=value", besides what the place in the world says
  std::vector<int> inherited = {};            ///< descriptors that ranks get under the same numbers
  sigset_t signal_mask{};                     ///< what they start with
  std::string host = {};                      ///< name of this host in errors; empty: none is needed
  bool prefix = false;                        ///< each line of output begins with the rank (launch/output_prefix.h)
};

/// What a launch says of them.
LocalRanksOptions local_ranks_options(const LaunchOptions& options, const sigset_t& mask);

/// The ranks of a launch on this host.
class LocalRanks : public RankHost {
 public:
  /// Starts nothing yet, but the guardian.
  LocalRanks(LocalRanksOptions options, int num_ranks);

  /// Starts the ranks, once. Throws Error where the system refuses.
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
  std::unique_ptr<OutputPrefix> output_;  ///< ends when those that write have
  std::deque<ProcessGroup> processes_;    ///< of outcomes_
};

}  // namespace weft
