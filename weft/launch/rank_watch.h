// RankWatch: watches the ranks of a launch on one or several hosts, finds the culprit of a failure, and then ends all ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/launch/culprit.h"
#include "weft/launch/hosts.h"
#include "weft/launch/launch_options.h"
#include "weft/launch/signal_watch.h"

namespace weft {

/// One launch, from start to end.
class RankWatch {
 public:
  RankWatch(const LaunchOptions& options, Hosts& hosts, SignalWatch& signals)
      : options_(options), hosts_(hosts), signals_(signals) {}

  /// Starts the ranks.
  void start();
  /// Returns once all ranks have ended.
  void watch();
  /// Returns the outcome.
  LaunchOutcome outcome() const;

 private:
  enum class Phase {
    running,
    settling,     ///< a rank failed, perhaps as an echo: the cause may still appear
    interrupted,  ///< the first Ctrl-C was forwarded
    terminating,  ///< SIGTERM was sent
    killing,      ///< SIGKILL was sent
  };

  bool any_left() const;
  void wait();
  void receive();
  void signal_all(int number);
  void terminate();
  void enter(Phase phase, double seconds);
  void on_signal(const HostSignal& signal);
  void on_deadline();
  void judge();
  bool waits_for_a_silent_host() const;
  bool is_waiting_for_evidence(const Verdict& verdict) const;
  int poll_timeout_ms() const;
  int good_status(const RankOutcome& outcome) const;
  std::vector<RankOutcome> outcomes() const;

  const LaunchOptions& options_;
  Hosts& hosts_;
  SignalWatch& signals_;
  StartedRanks ranks_;
  Phase phase_ = Phase::running;
  std::optional<int64_t> deadline_ns_;
  bool has_asked_ = false;  ///< LaunchOptions::ask_to_stop
  int interrupt_ = 0;
  bool at_once_ = false;                 ///< LaunchOutcome::at_once
  std::string waits_;                    ///< text: operations in which ranks waited for ranks of a lost host
  std::map<int, int64_t> interrupt_ns_;  ///< when each host forwarded its first signal
};

}  // namespace weft
