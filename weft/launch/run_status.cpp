#include "weft/launch/run_status.h"

#include <utility>

#include "weft/base/monotonic.h"

namespace weft {

void RunStatus::set_running(int ranks) {
  const std::lock_guard lock(mutex_);
  view_.state = RunPhase::running;
  view_.ranks = ranks;
  view_.begin_ns = monotonic_ns();
}

void RunStatus::set_restarting(int restarts) {
  const std::lock_guard lock(mutex_);
  view_.state = RunPhase::restarting;
  view_.restarts = restarts;
}

void RunStatus::set_local_ranks(int ranks) {
  const std::lock_guard lock(mutex_);
  view_.local_ranks = ranks;
}

void RunStatus::set_led() {
  const std::lock_guard lock(mutex_);
  view_.is_led = true;
}

void RunStatus::set_custom_program() {
  const std::lock_guard lock(mutex_);
  view_.is_custom_program = true;
}

void RunStatus::set_steps(int64_t steps_done) {
  const std::lock_guard lock(mutex_);
  if (steps_done == view_.steps_done) return;
  view_.steps_done = steps_done;
  view_.step_ns = monotonic_ns();
}

void RunStatus::set_figures(const RunFigures& figures) {
  const std::lock_guard lock(mutex_);
  view_.figures = figures;
}

void RunStatus::set_hosts(std::vector<HostStatus> hosts) {
  const std::lock_guard lock(mutex_);
  view_.hosts = std::move(hosts);
}

RunView RunStatus::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

}  // namespace weft
