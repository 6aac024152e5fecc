#include "weft/program/simulate/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "weft/program/cost.h"

namespace weft {
namespace {

constexpr double kTreeHops = 4.0;  // of a level of the tree over hosts, in hops of a ring

/// Tracks time while a pass computes and waits for its calls.
class Pass {
 public:
  Pass(double flops, double alone) : flops_(flops), seconds_per_flop_(flops > 0.0 ? alone / flops : 0.0), rest_(alone) {}

  void call(double begins_at, double waited_at, double seconds) {
    compute_until(begins_at);
    line_free_s_ = std::max(line_free_s_, now_s_) + seconds;
    const std::pair awaited(waited_at, line_free_s_);  // among equals the later call ends later
    under_way_.insert(std::upper_bound(under_way_.begin() + first_, under_way_.end(), awaited), awaited);
  }

  double end() {
    compute_until(flops_);
    while (first_ < under_way_.size()) await_first();
    return now_s_ + rest_;
  }

 private:
  void compute_until(double flops) {
    while (first_ < under_way_.size() && under_way_[first_].first <= flops) {
      compute(under_way_[first_].first);
      await_first();
    }
    compute(flops);
  }
  void compute(double flops) {
    const double seconds = std::clamp((flops - done_) * seconds_per_flop_, 0.0, rest_);
    now_s_ += seconds;
    rest_ -= seconds;
    done_ = std::max(done_, flops);
  }
  void await_first() { now_s_ = std::max(now_s_, under_way_[first_++].second); }

  double flops_;
  double seconds_per_flop_;
  double rest_;  ///< operations still to compute
  double done_ = 0.0;
  double now_s_ = 0.0;
  double line_free_s_ = 0.0;
  /// Operations before the wait, and arrival time, of pending calls; those before `first_` are done.
  std::vector<std::pair<double, double>> under_way_;
  size_t first_ = 0;
};

}  // namespace

double Ring::seconds(const Instruction& x) const {
  if (ranks == 1) return 0.0;
  if (two_levels) return two_level_seconds(way_of(x.op), x.wire_bytes, wire_kind(x) == WireKind::gradients);
  const bool halves = x.op == Op::gather || x.op == Op::reduce_scatter || x.op == Op::gather_gradients;
  if (costs != nullptr && software != nullptr && halves) return software_seconds(x.op, static_cast<double>(x.wire_bytes));
  if (costs != nullptr) return priced_seconds(!halves, static_cast<double>(x.wire_bytes));
  const int rounds = (halves ? 1 : 2) * (ranks - 1);
  return rounds * link.latency_s + static_cast<double>(x.wire_bytes) / link.bytes_per_s;
}

double Ring::seconds(const InnerCall& call) const {
  if (two_levels) return two_level_seconds(Way::all_reduce, call.wire_bytes, /*gradients=*/false);
  if (costs != nullptr) return priced_seconds(call.rounds >= 2 * (ranks - 1), static_cast<double>(call.wire_bytes));
  return call.rounds * link.latency_s + static_cast<double>(call.wire_bytes) / link.bytes_per_s;
}

double Ring::software_seconds(Op op, double wire_bytes) const {
  const double calls = software->calls_per_block;
  const double factor = op == Op::gather ? 1.0 - software->hidden_gathers : software->gradient_traffic;
  return factor * calls * priced_seconds(/*is_all_reduce=*/false, wire_bytes / calls);
}

// Between hosts the latency is that of a ring, or for all-reduces of a tree over hosts (both ways) with a chain inside each, as
// NCCL's, if that is less.
double Ring::priced_seconds(bool is_all_reduce, double wire_bytes) const {
  if (wire_bytes <= 0.0) return 0.0;
  const double trips = is_all_reduce ? 2.0 : 1.0;
  double seconds = (is_all_reduce ? costs->all_reduce_start_s : costs->start_s) + wire_bytes / link.bytes_per_s;
  if (hosts > 1) {
    const double tree = kTreeHops * std::log2(hosts) + on_host;
    return seconds + trips * costs->hop_s * (is_all_reduce ? std::min<double>(ranks, tree) : ranks);
  }
  if (costs->half_rate_bytes <= 0.0) return seconds;
  const double bytes = wire_bytes * ranks / (ranks - 1) / trips;
  return seconds + wire_bytes / link.bytes_per_s * std::pow(costs->half_rate_bytes / bytes, costs->half_rate_power);
}

// Adds up the times of the levels: chunks of a large call are not assumed to overlap.
double Ring::two_level_seconds(Way way, int64_t wire_bytes, bool gradients) const {
  const double rounds = way == Way::all_reduce ? 2.0 : 1.0;
  const double bytes = whole_bytes(way, wire_bytes, ranks);
  double seconds = rounds * link.latency_s +
                   wire_factor(narrow && gradients, way, bytes) * crossing[static_cast<size_t>(way)] * bytes / link.bytes_per_s;
  if (on_host > 1) seconds += rounds * inside.seconds(bytes * (on_host - 1) / on_host);
  return seconds;
}

const Ring& Network::ring(AxisSet axes, int block) {
  const auto [found, is_new] = rings_.try_emplace({axes, block});
  Ring& ring = found->second;
  if (!is_new) return ring;
  const AxisSet along = block >= 0 ? kPipelineAxis : axes, others = AxisSet::of_bits(kAllAxes.bits() & ~along.bits());
  const int on_host = std::min(hardware_.ranks_per_host, ranks_.mesh().world());
  std::vector<bool> seen(on_host, false);
  for (const int first : ranks_.members(0, others)) {  // lines that begin at the same place of a host are alike
    if (seen[first % on_host]) continue;
    seen[first % on_host] = true;
    add_line(ring, ranks_.members(first, axes, block), axes);
  }
  return ring;
}

double Network::seconds(const std::vector<InnerCall>& calls, double flops, double alone) {
  if (calls.empty() || !std::isfinite(alone)) return alone;
  Pass pass(flops, alone);
  double moving = 0.0;
  for (const InnerCall& call : calls) {
    const Ring& along = ring(call.axes);
    const double seconds = along.seconds(call);
    moving += seconds;
    pass.call(call.begins_at, overlaps_compute(along.port) ? call.waited_at : call.begins_at, seconds);
  }
  const double end = pass.end(), beside = std::max(alone + moving - end, 0.0);
  return end + (hardware_.collectives ? hardware_.collectives->taken_from_compute : 0.0) * beside;
}

double Network::seconds(const Program& program, const Instruction& x, double alone) {
  const std::vector<InnerCall>& calls = program.inner_calls(x);
  if (!hardware_.software || !takes_one_block(x.op)) return seconds(calls, x.flops, alone);
  std::vector<InnerCall> others;
  std::copy_if(calls.begin(), calls.end(), std::back_inserter(others),
               [](const InnerCall& call) { return call.axes != kTensorAxis; });
  return seconds(others, x.flops, alone) +
         exposed_seconds(program.block_calls[x.first].forward, x.op, program.partial_gradients);
}

double Network::exposed_seconds(const std::vector<InnerCall>& forward, Op pass, bool sequence_parallel) {
  if (pass == Op::backward_weight) return 0.0;
  const SoftwareCosts& software = *hardware_.software;
  double once = 0.0;
  for (const InnerCall& call : forward) once += call.axes == kTensorAxis ? ring(call.axes).seconds(call) : 0.0;
  const double more = software.repeated_calls + (sequence_parallel ? software.gathered_again : 0.0);
  return (pass == Op::forward ? 1.0 : 1.0 + more) * (1.0 - software.hidden_tensor) * once;
}

Network::Crossing Network::split(double bytes, const Link& link, bool all_same) {
  const int parts = ranks_.mesh().tp;
  if (!all_same || !hardware_.software || !hardware_.software->split_messages || parts == 1) return {bytes, link};
  Link crossed = link;
  const double gathered = bytes * (parts - 1) / parts;
  crossed.latency_s += ring(kTensorAxis).seconds({.op = Op::gather, .wire_bytes = std::llround(gathered)});
  return {bytes / parts, crossed};
}

void Network::add_line(Ring& ring, const std::vector<int>& members, AxisSet axes) {
  ring.ranks = static_cast<int>(members.size());
  std::vector<int> on_host;  // number of members on each host; members of a host are adjacent
  for (size_t i = 0; i < members.size(); ++i) {
    if (i == 0 || host_of(members[i]) != host_of(members[i - 1])) on_host.push_back(0);
    ++on_host.back();
  }
  const auto check = [&](const Link& link, const char* section) {
    if (link.is_known) return;
    check_known(hardware_, link, section,
                fmt::format("axis '{}' (ranks {} to {})", name(axes), members.front(), members.back()));
  };
  const bool alone = on_host.size() == members.size();  // one member per host
  if (on_host.size() > 1) check(hardware_.inter_host, "inter_host");
  if (!alone) check(hardware_.intra_host, "intra_host");
  used_.inter_host |= on_host.size() > 1;
  used_.intra_host |= !alone;
  ring.hosts = std::max(ring.hosts, static_cast<int>(on_host.size()));
  ring.on_host = std::max(ring.on_host, *std::max_element(on_host.begin(), on_host.end()));
  if (hardware_.collectives) ring.costs = &*hardware_.collectives;
  if (hardware_.software) ring.software = &*hardware_.software;
  Link link = shared_by_turns(hardware_.intra_host, axes);
  if (on_host.size() > 1 && hardware_.two_levels) {
    add_levels(ring, on_host);
    if (ring.on_host > 1) ring.inside = link;
    link = hardware_.inter_host;
  } else if (on_host.size() > 1) {
    const int ports = *std::min_element(on_host.begin(), on_host.end());
    ring.port = Port::network;
    link.latency_s = std::max(alone ? 0.0 : link.latency_s, hardware_.inter_host.latency_s);
    link.bytes_per_s = std::min(alone ? kFree : link.bytes_per_s, ports * hardware_.inter_host.bytes_per_s);
  }
  ring.link.latency_s = std::max(ring.link.latency_s, link.latency_s);
  ring.link.bytes_per_s = std::min(ring.link.bytes_per_s, link.bytes_per_s);
}

void Network::add_levels(Ring& ring, const std::vector<int>& on_host) const {
  ring.port = Port::network;
  ring.two_levels = true;
  ring.narrow = hardware_.narrow_across;
  for (const int here : on_host) {
    ring.on_host = std::max(ring.on_host, here);
    for (const Way way : {Way::all_reduce, Way::reduce_scatter, Way::all_gather}) {
      double& most = ring.crossing[static_cast<size_t>(way)];
      most = std::max(most, crossing_share(way, static_cast<int>(on_host.size()), ring.ranks, here) / here);
    }
  }
}

// Ranks move their bytes inside a host themselves: on fewer cores than ranks they take turns. All ranks of a stage move at
// once.
Link Network::shared_by_turns(Link link, AxisSet axes) const {
  const int together = ranks_.mesh().world() / (axes.has(kPipelineAxis) ? 1 : ranks_.mesh().pp);
  const double movers = std::min(hardware_.ranks_per_host, together), cores = static_cast<double>(hardware_.cores.per_host);
  const double turns = cores > 0.0 ? std::max(1.0, movers / cores) : 1.0;
  return {.latency_s = link.latency_s * turns, .bytes_per_s = link.bytes_per_s / turns, .is_known = link.is_known};
}

Port Network::port(int from_pp, int to_pp) const {
  for (int column = 0; column < ranks_.num_columns(); ++column) {
    if (host_of(ranks_.rank_of(column, from_pp)) != host_of(ranks_.rank_of(column, to_pp))) return Port::network;
  }
  return Port::host;
}

const Link& Network::link(int from_pp, int to_pp) {
  const bool is_inter = port(from_pp, to_pp) == Port::network;
  (is_inter ? used_.inter_host : used_.intra_host) = true;
  const Link& link = is_inter ? hardware_.inter_host : hardware_.intra_host;
  if (!link.is_known) {
    check_known(hardware_, link, is_inter ? "inter_host" : "intra_host",
                fmt::format("pipeline rank {} to reach {}", from_pp, to_pp));
  }
  return link;
}

LinksUsed links_used(const Program& program, const Hardware& hardware) {
  Hardware known = hardware;
  for (Link* link : {&known.intra_host, &known.inter_host, &known.offload}) link->is_known = true;
  const Ranks ranks(program);
  Network network(ranks, known);
  bool offloads = false;
  const int stride = program.world_size() / program.mesh.pp;
  for (int pp = 0; pp < program.mesh.pp; ++pp) {
    for (const Instruction& x : program.of(pp * stride)) {
      if (is_collective(x)) network.ring(x.axes, tied_block(x));
      if (is_transfer(x.op)) network.link(pp, x.peer);
      for (const InnerCall& call : program.inner_calls(x)) network.ring(call.axes);
      offloads |= x.op == Op::offload || x.op == Op::reload;
    }
  }
  LinksUsed used = network.used();
  used.offload = offloads;
  return used;
}

}  // namespace weft
