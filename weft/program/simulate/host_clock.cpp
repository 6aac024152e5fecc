#include "weft/program/simulate/host_clock.h"

#include <algorithm>

namespace weft {

HostClock::HostClock(const Program& program, const InstructionList& list, const Hardware& hardware,
                     const ModelLaunches& launches, const WorkTime& work, double ahead_s)
    : launch_s_(hardware.host_launch_s.value_or(0.0)),
      graph_launch_s_(hardware.graph_launch_s.value_or(launch_s_)),
      wait_s_(hardware.host_wait_s.value_or(0.0)),
      now_s_(-ahead_s) {
  if (!hardware.host_launch_s) return;
  work_ = hardware.captured ? captured_work(list) : host_work(program, list, launches);
  for (size_t i = 0; i < work_.size() && !hardware.captured; ++i) {
    if (work.is_measured(list[i])) work_[i].launches = 0;
  }
}

Given HostClock::next(int index) const {
  if (work_.empty()) return {};
  const HostWork& work = work_[static_cast<size_t>(index)];
  const double more_s = work.is_graph ? graph_launch_s_ - launch_s_ : 0.0;
  return {work.launches, now_s_ + launch_s_ + more_s, now_s_ + work.launches * launch_s_ + more_s};
}

void HostClock::give(int index) {
  if (work_.empty()) return;
  const Given given = next(index);
  if (given.launches > 0) now_s_ = given.last_s;
  num_launches_ += given.launches;
  if (!work_[static_cast<size_t>(index)].waits) return;
  waits_for_ = index;
  ++num_waits_;
}

void HostClock::wait_until(double end_s) {
  now_s_ = std::max(now_s_, end_s) + wait_s_;
  waits_for_ = -1;
}

double HostClock::ahead_s(double end_s, const std::vector<Span>& spans) const {
  HostClock later = *this;
  if (!work_.empty() && later.num_waits_ == 0) later.wait_until(0.0);  // for the numbers of the step before
  if (waits_for_ >= 0) later.wait_until(spans[static_cast<size_t>(waits_for_)].end_s);
  return end_s - later.now_s_;
}

std::vector<double> hosts_ahead_s(const std::vector<HostClock>& hosts, const std::vector<SimulatedRank>& ranks) {
  double end = 0.0;
  for (const SimulatedRank& rank : ranks) {
    for (const Span& span : rank.spans) end = std::max(end, span.end_s);
  }
  std::vector<double> ahead;
  ahead.reserve(hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) ahead.push_back(hosts[i].ahead_s(end, ranks[i].spans));
  return ahead;
}

}  // namespace weft
