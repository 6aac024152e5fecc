#include "weft/program/simulate/shared_cores.h"

#include <algorithm>
#include <limits>

namespace weft {
namespace {

constexpr double kNoChange = std::numeric_limits<double>::infinity();

}  // namespace

SharedCores::SharedCores(const Hardware& hardware, const Simulation& simulation, int world_size)
    : cores_(static_cast<double>(hardware.cores.per_host)),
      threads_(hardware.cores.threads),
      network_share_(hardware.cores.network_share) {
  if (hardware.cores.per_host == 0) return;
  const auto hosts = static_cast<size_t>((world_size + hardware.ranks_per_host - 1) / hardware.ranks_per_host);
  const double on_host = std::min(world_size, hardware.ranks_per_host);
  are_short_ = on_host * (threads_ + (hosts > 1 ? network_share_ : 0.0)) > cores_;
  if (!are_short_) return;
  ranks_.assign(simulation.ranks.size(), std::vector<double>(hosts, 0.0));
  left_s_.resize(ranks_.size());
  running_.resize(ranks_.size());
  alone_end_s_.resize(ranks_.size());
  for (int rank = 0; rank < world_size; ++rank) {
    ranks_[static_cast<size_t>(simulation.index_of_rank[rank])][static_cast<size_t>(rank / hardware.ranks_per_host)] += 1.0;
  }
}

void SharedCores::add(const InstructionRef& x, double now_s, double seconds) {
  advance(now_s);
  left_s_[static_cast<size_t>(x.side)] = seconds;
  running_[static_cast<size_t>(x.side)] = x;
  alone_end_s_[static_cast<size_t>(x.side)] = now_s + seconds;
}

void SharedCores::add_traffic(int side, double begin_s, double end_s) {
  if (are_short_ && network_share_ > 0.0 && end_s > begin_s) traffic_.push_back({static_cast<size_t>(side), begin_s, end_s});
}

std::optional<SharedCores::End> SharedCores::first_end() const {
  Left left = left_s_;
  double now_s = now_s_;
  for (;;) {
    const std::vector<double> speed = speeds(left, now_s);
    std::optional<End> first;
    for (size_t side = 0; side < left.size(); ++side) {
      if (!left[side]) continue;
      const double time = now_s + *left[side] / speed[side];
      if (!first || time < first->time_s) first = End{running_[side], time, std::max(0.0, time - alone_end_s_[side])};
    }
    const double change = next_change(now_s);
    if (!first || first->time_s <= change) return first;
    for (size_t side = 0; side < left.size(); ++side) {
      if (left[side]) *left[side] -= (change - now_s) * speed[side];
    }
    now_s = change;
  }
}

std::optional<SharedCores::End> SharedCores::take_first(double next_s) {
  if (!are_short_) return {};
  const std::optional<End> end = first_end();
  if (!end || next_s < end->time_s) return {};
  advance(end->time_s);
  left_s_[static_cast<size_t>(end->x.side)].reset();
  return end;
}

void SharedCores::advance(double now_s) {
  while (now_s_ < now_s) {
    const double until_s = std::min(now_s, next_change(now_s_));
    const std::vector<double> speed = speeds(left_s_, now_s_);
    for (size_t side = 0; side < left_s_.size(); ++side) {
      if (left_s_[side]) left_s_[side] = std::max(0.0, *left_s_[side] - (until_s - now_s_) * speed[side]);
    }
    now_s_ = until_s;
  }
  std::erase_if(traffic_, [this](const Traffic& traffic) { return traffic.end_s <= now_s_; });
}

// Ranks of one side may be on several hosts: the slowest decides.
std::vector<double> SharedCores::speeds(const Left& left, double now_s) const {
  std::vector<double> wanted(ranks_.empty() ? 0 : ranks_.front().size(), 0.0), speed(left.size(), 1.0);
  for (size_t host = 0; host < wanted.size(); ++host) {
    for (size_t side = 0; side < left.size(); ++side) wanted[host] += left[side] ? threads_ * ranks_[side][host] : 0.0;
    for (const Traffic& traffic : traffic_) {
      const bool is_under_way = traffic.begin_s <= now_s && now_s < traffic.end_s;
      wanted[host] += is_under_way ? network_share_ * ranks_[traffic.side][host] : 0.0;
    }
    for (size_t side = 0; side < left.size(); ++side) {
      if (ranks_[side][host] > 0.0) speed[side] = std::min(speed[side], cores_ / std::max(wanted[host], cores_));
    }
  }
  return speed;
}

// When traffic begins or ends.
double SharedCores::next_change(double now_s) const {
  double next = kNoChange;
  for (const Traffic& traffic : traffic_) {
    for (const double time : {traffic.begin_s, traffic.end_s}) next = time > now_s ? std::min(next, time) : next;
  }
  return next;
}

}  // namespace weft
