#include "weft/program/host_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/program/cost.h"
#include "weft/program/ranks.h"

namespace weft {
namespace {

int64_t& field_of(HostTraffic& traffic, WireKind kind) {
  switch (kind) {
    case WireKind::gradients:
      return traffic.gradients;
    case WireKind::weights:
      return traffic.weights;
    case WireKind::transfers:
      return traffic.transfers;
    case WireKind::inner:
      return traffic.inner;
    case WireKind::losses:
      break;
  }
  return traffic.losses;
}

class Crossings {
 public:
  Crossings(const Program& program, int ranks_per_host, bool narrow)
      : program_(program),
        narrow_(narrow),
        ranks_(program),
        per_host_(ranks_per_host),
        hosts_(ceil_divide(program.world_size(), ranks_per_host)) {}

  std::vector<HostTraffic> count() {
    for (int pp = 0; pp < program_.mesh.pp; ++pp) {
      for (int column = 0; column < ranks_.num_columns(); ++column) count_rank(ranks_.rank_of(column, pp), pp, column);
    }
    return std::move(hosts_);
  }

 private:
  void count_rank(int rank, int pp, int column) {
    for (const Instruction& x : program_.of(rank)) {
      if (is_collective(x)) add(rank, x.axes, tied_block(x), way_of(x.op), wire_kind(x), x.wire_bytes);
      for (const InnerCall& call : program_.inner_calls(x)) {
        add(rank, call.axes, -1, Way::all_reduce, WireKind::inner, call.wire_bytes);
      }
      if (x.op != Op::send) continue;
      const int to = ranks_.rank_of(column, x.peer), from = ranks_.rank_of(column, pp);
      if (host_of(to) != host_of(from)) field_of(hosts_[host_of(from)], wire_kind(x)) += x.wire_bytes;
    }
  }

  /// Counts each line of the axis once, at its first rank.
  void add(int rank, AxisSet axes, int block, Way way, WireKind kind, int64_t wire_bytes) {
    const auto [found, is_new] = lines_.try_emplace({rank, axes, block});
    std::map<int, int>& on_host = found->second;
    if (is_new) {
      for (const int member : ranks_.members(rank, axes, block)) {
        ++on_host[host_of(member)];
        if (member != rank) lines_.try_emplace({member, axes, block});
      }
    }
    if (on_host.size() < 2) return;
    int ranks = 0;
    for (const auto& [host, here] : on_host) ranks += here;
    const double whole = whole_bytes(way, wire_bytes, ranks);
    const double factor = wire_factor(narrow_ && kind == WireKind::gradients, way, whole);
    for (const auto& [host, here] : on_host) {
      const double share = crossing_share(way, static_cast<int>(on_host.size()), ranks, here);
      field_of(hosts_[host], kind) += static_cast<int64_t>(whole * factor * share + 0.5);
    }
  }

  int host_of(int rank) const { return rank / per_host_; }

  struct Line {
    int rank;
    AxisSet axes;
    int block;
    bool operator<(const Line& other) const {
      return std::tie(rank, axes, block) < std::tie(other.rank, other.axes, other.block);
    }
  };

  const Program& program_;
  bool narrow_;
  Ranks ranks_;
  int per_host_;
  std::vector<HostTraffic> hosts_;
  std::map<Line, std::map<int, int>> lines_;  ///< ranks on each host of a rank's line; empty if another rank counts it
};

}  // namespace

std::vector<HostTraffic> host_traffic(const Program& program, int ranks_per_host, bool narrow) {
  if (ranks_per_host < 1) throw InputError(fmt::format("{} ranks per host: must be at least 1", ranks_per_host));
  return Crossings(program, ranks_per_host, narrow).count();
}

HostTraffic most_traffic(const std::vector<HostTraffic>& hosts) {
  const auto less = [](const HostTraffic& a, const HostTraffic& b) { return a.total() < b.total(); };
  const auto most = std::max_element(hosts.begin(), hosts.end(), less);
  return most == hosts.end() ? HostTraffic() : *most;
}

Way way_of(Op op) {
  if (op == Op::reduce_scatter) return Way::reduce_scatter;
  return op == Op::gather || op == Op::gather_gradients ? Way::all_gather : Way::all_reduce;
}

double whole_bytes(Way way, int64_t wire_bytes, int ranks) {
  const double n = ranks;
  return static_cast<double>(wire_bytes) * n / (n - 1.0) / (way == Way::all_reduce ? 2.0 : 1.0);
}

double wire_factor(bool narrow, Way way, double whole_bytes) {
  constexpr double kSmallBytes = 16 << 10;  // comm/two_level/host_operations.cpp
  return narrow && way != Way::all_gather && whole_bytes > kSmallBytes ? 0.5 : 1.0;
}

double crossing_share(Way way, int hosts, int ranks, int here) {
  const double n = ranks, h = hosts;
  if (way == Way::all_reduce) return 2.0 * (h - 1.0) / h;
  return way == Way::reduce_scatter ? (n - here) / n : here / n * (h - 1.0);
}

}  // namespace weft
