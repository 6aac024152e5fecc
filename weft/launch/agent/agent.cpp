#include "weft/launch/agent/agent.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/monotonic.h"
#include "weft/base/run_board.h"
#include "weft/base/stopwatch.h"
#include "weft/base/units.h"
#include "weft/launch/agent/connection.h"
#include "weft/launch/agent/join_head.h"
#include "weft/launch/agent/message_times.h"
#include "weft/launch/agent/sockets.h"
#include "weft/launch/local_ranks.h"
#include "weft/launch/run_status.h"
#include "weft/launch/signal_watch.h"

namespace weft {

namespace {

/// The head is gone; the message says so.
class HeadLost : public Error {
 public:
  using Error::Error;
};

class Agent {
 public:
  Agent(const AgentOptions& options, SignalWatch& signals, std::unique_ptr<AgentConnection> head)
      : options_(options), signals_(signals), head_(std::move(head)), board_(0) {}

  /// Runs until the run is over.
  LaunchOutcome serve();

 private:
  /// What has been reported to the head about a rank.
  struct Reported {
    size_t said = 0;
    bool stopped = false, ended = false;
  };

  void wait() const;
  void on_signals();
  void obey(const nlohmann::json& message);
  void start(const nlohmann::json& message);
  void report();
  void report(const RankOutcome& outcome, Reported& reported);
  void show() const;
  void end_ranks();

  const AgentOptions& options_;
  SignalWatch& signals_;
  std::unique_ptr<AgentConnection> head_;
  RunBoard board_;
  int64_t launch_ = 0;
  int restarts_ = 0;
  std::unique_ptr<LocalRanks> ranks_;
  std::vector<Reported> reported_;
  std::optional<LaunchOutcome> end_;
  int64_t interrupt_ns_ = 0;
};

LaunchOutcome Agent::serve() {
  for (; !end_; wait()) {
    on_signals();
    head_->set_steps(board_.steps_done(), launch_);
    for (const nlohmann::json& message : head_->receive()) obey(message);
    report();
    show();
    if (end_) break;
    const bool silent = head_->silent_s() > options_.host_timeout_s;
    if (!silent && !head_->closed()) continue;
    const HeadLost lost(fmt::format(
        "the run's head at {}:{} {}: this host's ranks were ended", options_.head_host, options_.head_port,
        silent ? fmt::format("has not answered for {}; it or its network is down", format_duration(head_->silent_s()))
               : fmt::format("has gone ({})", head_->why())));
    end_ranks();
    throw lost;
  }
  end_ranks();
  return *end_;
}

void Agent::wait() const {
  std::vector<pollfd> ready = {{signals_.fd(), POLLIN, 0}};
  head_->add_descriptors(ready);
  if (ranks_) ranks_->add_descriptors(ready);
  poll(ready.data(), ready.size(), 200);
}

/// The head forwards a signal to all hosts. A second Ctrl-C ends this host's ranks at once, even if the head does not answer.
void Agent::on_signals() {
  for (const int signal : signals_.receive()) {
    const int64_t now = monotonic_ns();
    if (interrupt_ns_ != 0 && now - interrupt_ns_ < kSamePress_ns) continue;
    if (signal == SIGINT) {
      if (interrupt_ns_ != 0 && ranks_) ranks_->signal(SIGKILL, SignalTo::all);
      interrupt_ns_ = now;
    }
    head_->send({{"kind", "interrupt"}, {"signal", signal}});
  }
}

void Agent::obey(const nlohmann::json& message) {
  const std::string kind = message.at("kind");
  if (kind == "start") {
    start(message);
  } else if (kind == "signal") {
    if (!ranks_ || message.at("launch") != launch_) return;
    board_.set_growing(message.at("growing"));
    ranks_->signal(message.at("number"), message.at("spare").get<bool>() ? SignalTo::silent : SignalTo::all);
  } else if (kind == "end") {
    end_ = LaunchOutcome{.status = message.at("status"), .error = message.at("line")};
  }
}

void Agent::start(const nlohmann::json& message) {
  launch_ = message.at("launch");
  restarts_ = message.value("restarts", 0);
  const int64_t failed_age_ns = message.at("failed_age_ns");
  board_.begin_launch();
  board_.set_growing(false);
  board_.set_steps_done(message.at("steps"));
  board_.set_failed_ns(failed_age_ns < 0 ? 0 : time_of_age(failed_age_ns));
  HostStart start{.first_rank = message.at("first_rank"),
                  .num_ranks = message.at("ranks"),
                  .world = message.at("world"),
                  .master_address = ""};
  start.master_address = message.at("master_address");
  if (start.master_address.empty()) start.master_address = options_.head_host;
  start.master_port = message.at("master_port");
  start.store = message.at("store");
  if (start.store.starts_with(':')) start.store = options_.head_host + start.store;
  reported_.assign(static_cast<size_t>(start.num_ranks), {});
  try {
    if (!options_.problem.empty()) throw InputError(options_.problem);
    LocalRanksOptions own{
        .command = options_.command, .environment = {board_.environment()}, .inherited = board_.descriptors()};
    own.signal_mask = signals_.old_mask();
    own.host = options_.prefix ? options_.host : "";
    own.prefix = options_.prefix;
    ranks_ = std::make_unique<LocalRanks>(std::move(own), start.num_ranks);
    ranks_->start(start);
    if (options_.status != nullptr) {
      options_.status->set_local_ranks(start.num_ranks);
      options_.status->set_restarting(restarts_);
      options_.status->set_running(start.world);
    }
  } catch (const Error& error) {
    ranks_.reset();
    head_->send({{"kind", "failed"}, {"launch", launch_}, {"text", error.what()}});
  }
}

void Agent::report() {
  if (!ranks_) return;
  try {
    ranks_->receive(/*ending=*/false);
  } catch (const Error& error) {
    head_->send({{"kind", "failed"}, {"launch", launch_}, {"text", error.what()}});
    ranks_.reset();
    return;
  }
  for (size_t i = 0; i < reported_.size(); ++i) report(ranks_->outcomes()[i], reported_[i]);
  if (ranks_->any_left()) return;
  ranks_.reset();
  head_->send({{"kind", "idle"}, {"free_port", free_port()}});
}

/// Shows the steps reported by the local ranks, if rank 0 is one of them, or by the head.
void Agent::show() const {
  if (options_.status == nullptr || launch_ == 0) return;
  if (!ranks_) options_.status->set_restarting(restarts_);
  options_.status->set_figures(board_.figures());
  options_.status->set_steps(head_->steps_launch() == launch_ ? std::max(head_->steps(), board_.steps_done())
                                                              : board_.steps_done());
}

/// Sends a rank's messages before its end, because they give the reason.
void Agent::report(const RankOutcome& outcome, Reported& reported) {
  for (; reported.said < outcome.said.size(); ++reported.said) {
    const RankError& error = outcome.said[reported.said];
    head_->send({{"kind", "said"},
                 {"launch", launch_},
                 {"rank", outcome.rank},
                 {"age_ns", age_of(error.time_ns)},
                 {"blame", error.blame == Blame::peer ? "peer" : "self"},
                 {"culprit", error.culprit},
                 {"status", error.status},
                 {"text", error.text}});
  }
  if (std::exchange(reported.stopped, outcome.stopped) != outcome.stopped) {
    head_->send({{"kind", "stopped"}, {"launch", launch_}, {"rank", outcome.rank}, {"is", outcome.stopped}});
  }
  if (std::exchange(reported.ended, outcome.ended) == outcome.ended) return;
  head_->set_steps(board_.steps_done(), launch_);
  head_->beat();  // its progress also goes before its end
  head_->send({{"kind", "ended"},
               {"launch", launch_},
               {"rank", outcome.rank},
               {"age_ns", age_of(outcome.ended_ns)},
               {"status", outcome.wait_status}});
}

void Agent::end_ranks() {
  if (!ranks_) return;
  ranks_->signal(SIGTERM, SignalTo::all);
  const Stopwatch waited;
  bool killed = false;
  while (ranks_->any_left()) {
    std::vector<pollfd> ready = {{signals_.fd(), POLLIN, 0}};
    ranks_->add_descriptors(ready);
    poll(ready.data(), ready.size(), 50);
    signals_.receive();
    ranks_->receive(/*ending=*/true);
    if (!killed && waited.seconds() > options_.grace_s) {
      ranks_->signal(SIGKILL, SignalTo::all);
      killed = true;
    }
  }
  ranks_.reset();
}

}  // namespace

LaunchOutcome run_agent(const AgentOptions& options) {
  SignalWatch signals;
  while (true) {
    JoinedHead joined = join_head(options, signals);
    if (joined.signal != 0) {
      return interrupted_by(joined.signal);
    }
    try {
      const LaunchOutcome outcome = Agent(options, signals, std::move(joined.connection)).serve();
      signals.receive();  // the run is over: late signals are dropped
      return outcome;
    } catch (const nlohmann::json::exception&) {
      throw Error(fmt::format("cannot parse a message from the head at {}:{}; install the same version of weft on all hosts",
                              options.head_host, options.head_port));
    } catch (const HeadLost& error) {
      if (!options.joins_again) throw;
      if (options.report) options.report(std::string(error.what()) + "; waiting for it to come back");
    }
  }
}

}  // namespace weft
