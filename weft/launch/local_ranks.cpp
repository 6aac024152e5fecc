#include "weft/launch/local_ranks.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "weft/base/cores.h"
#include "weft/base/monotonic.h"
#include "weft/launch/launch_options.h"
#include "weft/launch/rank_limits.h"
#include "weft/launch/rank_process.h"

namespace weft {

namespace {

/// Puts "NAME=value" entries in the place of those of the same names.
void set_variables(std::vector<std::string>& environment, const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    std::erase_if(environment, [&](const std::string& other) { return other.starts_with(name); });
    environment.push_back(entry);
  }
}

}  // namespace

LocalRanksOptions local_ranks_options(const LaunchOptions& options, const sigset_t& mask) {
  return {.command = options.command,
          .environment = options.environment,
          .inherited = options.inherited,
          .signal_mask = mask,
          .host = "",
          .prefix = options.prefix};
}

LocalRanks::LocalRanks(LocalRanksOptions options, int num_ranks) : options_(std::move(options)), guardian_(num_ranks) {}

/// Only after an exception are there ranks left.
LocalRanks::~LocalRanks() {
  for (Process& process : processes_) {
    if (process.pid < 0) continue;
    kill(-process.pid, SIGKILL);
    guardian_.forget(process.pid);
    waitpid(process.pid, nullptr, 0);
  }
}

void LocalRanks::start(const HostStart& start) {
  provide_descriptors(start.num_ranks);
  first_rank_ = start.first_rank;
  const FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int threads = threads_per_rank(available_cores(), start.num_ranks);
  if (options_.prefix) output_ = std::make_unique<OutputPrefix>();
  for (int local = 0; local < start.num_ranks; ++local) {
    const int rank = start.first_rank + local;
    RankStart process{.command = options_.command,
                      .environment = {},
                      .standard_input = rank == 0 && isatty(STDIN_FILENO) == 0 ? -1 : null.get(),
                      .inherited = options_.inherited,
                      .guardian_pipe = guardian_.pipe(),
                      .signal_mask = options_.signal_mask};
    process.environment = rank_environment({.rank = rank,
                                            .num_ranks = start.world,
                                            .local_rank = local,
                                            .num_local_ranks = start.num_ranks,
                                            .address = start.master_address,
                                            .port = start.master_port,
                                            .store = start.store,
                                            .threads = threads});
    for (const std::string& variable : errors_.environment()) process.environment.push_back(variable);
    process.inherited.push_back(errors_.write_end());
    set_variables(process.environment, options_.environment);
    OutputPrefix::Ends output;
    if (output_) {
      output = output_->add(options_.host, rank);
      process.standard_output = output.out.get();
      process.standard_error = output.err.get();
    }
    RankOutcome& outcome = outcomes_.emplace_back();
    outcome.rank = rank;
    outcome.host = options_.host;
    StartedRank started = start_rank(process);
    processes_.push_back({started.pid, std::move(started.exec_pipe)});
  }
  // After the last fork: it starts a thread.
  if (output_) output_->start();
}

void LocalRanks::add_descriptors(std::vector<pollfd>& all) const { all.push_back({errors_.read_end(), POLLIN, 0}); }

bool LocalRanks::any_left() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& process) { return process.pid >= 0; });
}

/// One that is stopped must run to hear it.
void LocalRanks::signal(int number, SignalTo to) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    const pid_t pid = processes_[i].pid;
    if (pid < 0 || (to == SignalTo::silent && !outcomes_[i].said.empty())) continue;
    kill(-pid, number);
    kill(-pid, SIGCONT);
  }
}

void LocalRanks::receive(bool ending) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].pid >= 0) reap(processes_[i], outcomes_[i], ending);
  }
  // After reaping: what a rank that has ended wrote is in the pipe by then.
  for (RankError& error : errors_.receive()) {
    const int local = error.rank - first_rank_;
    if (ending || local < 0 || local >= static_cast<int>(outcomes_.size())) continue;
    outcomes_[static_cast<size_t>(local)].said.push_back(std::move(error));
  }
  if (ending) return;
  for (size_t i = 0; i < processes_.size(); ++i) outcomes_[i].stopped = is_stopped(processes_[i].pid);
}

void LocalRanks::reap(Process& process, RankOutcome& outcome, bool ending) {
  siginfo_t info{};
  const auto pid = static_cast<id_t>(process.pid);
  if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != process.pid) return;
  throw_unless_run(process.exec_pipe, options_.command[0]);
  outcome.ended = true;
  outcome.ended_ns = monotonic_ns();
  outcome.ended_by_us = ending;
  // What it left behind dies with it, while its number still names its group.
  kill(-process.pid, SIGKILL);
  guardian_.forget(process.pid);
  waitpid(process.pid, &outcome.wait_status, 0);
  process.pid = -1;
}

}  // namespace weft
