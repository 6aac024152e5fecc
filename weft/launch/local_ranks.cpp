#include "weft/launch/local_ranks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "weft/base/cores.h"
#include "weft/base/monotonic.h"
#include "weft/launch/launch_options.h"
#include "weft/launch/rank_environment.h"
#include "weft/launch/rank_limits.h"

namespace weft {

namespace {

/// Sets "NAME=value" entries, replacing those with the same names.
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

void LocalRanks::start(const HostStart& start) {
  provide_descriptors(start.num_ranks);
  first_rank_ = start.first_rank;
  const FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int threads = threads_per_rank(available_cores(), start.num_ranks);
  if (options_.prefix) output_ = std::make_unique<OutputPrefix>();
  for (int local = 0; local < start.num_ranks; ++local) {
    const int rank = start.first_rank + local;
    ProcessStart process{.command = options_.command,
                         .standard_input = rank == 0 && isatty(STDIN_FILENO) == 0 ? -1 : null.get(),
                         .inherited = options_.inherited,
                         .guardian = &guardian_,
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
    processes_.emplace_back(process);
  }
  // After the last fork, because it starts a thread.
  if (output_) output_->start();
}

void LocalRanks::add_descriptors(std::vector<pollfd>& all) const {
  all.push_back({errors_.read_end(), POLLIN, 0});
  for (const ProcessGroup& process : processes_) all.push_back(process.descriptor());
}

bool LocalRanks::any_left() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const ProcessGroup& process) { return process.is_left(); });
}

void LocalRanks::signal(int number, SignalTo to) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (to == SignalTo::all || outcomes_[i].said.empty()) processes_[i].signal(number);
  }
}

void LocalRanks::receive(bool ending) {
  reap(ending);
  // After reaping: the pipe then holds everything that the ended ranks wrote.
  for (RankError& error : errors_.receive()) {
    const int local = error.rank - first_rank_;
    if (ending || local < 0 || local >= static_cast<int>(outcomes_.size())) continue;
    outcomes_[static_cast<size_t>(local)].said.push_back(std::move(error));
  }
  if (ending) return;
  for (size_t i = 0; i < processes_.size(); ++i) outcomes_[i].stopped = processes_[i].is_stopped();
}

void LocalRanks::reap(bool ending) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    const std::optional<int> status = processes_[i].reap();
    if (!status) continue;
    processes_[i].check_run();
    outcomes_[i].ended = true;
    outcomes_[i].ended_ns = monotonic_ns();
    outcomes_[i].ended_by_us = ending;
    outcomes_[i].wait_status = *status;
  }
}

}  // namespace weft
