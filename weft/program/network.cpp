#include "weft/program/network.h"

#include <algorithm>
#include <vector>

namespace weft {

double Ring::seconds(const Instruction& x) const {
  if (ranks == 1) return 0.0;
  const bool halves = x.op == Op::gather || x.op == Op::reduce_scatter;
  const int rounds = (halves ? 1 : 2) * (ranks - 1);
  return rounds * link.latency_s + static_cast<double>(x.wire_bytes) / link.bytes_per_s;
}

const Ring& Network::ring(AxisName axis, int block) {
  const auto [found, is_new] = rings_.try_emplace({axis, axis == AxisName::tied ? block : 0});
  Ring& ring = found->second;
  if (!is_new) return ring;
  const int world = ranks_.mesh().world();
  std::vector<bool> seen(world, false);
  for (int rank = 0; rank < world; ++rank) {
    if (seen[rank]) continue;
    const std::vector<int> line = ranks_.members(rank, axis, block);
    for (int member : line) seen[member] = true;
    add_line(ring, line);
  }
  return ring;
}

void Network::add_line(Ring& ring, const std::vector<int>& members) const {
  ring.ranks = static_cast<int>(members.size());
  std::map<int, int> on_host;
  for (int rank : members) ++on_host[host_of(rank)];
  Link link = hardware_.intra_host;
  if (on_host.size() > 1) {
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    const int ports = std::min_element(on_host.begin(), on_host.end(), fewer)->second;
    const bool alone = std::max_element(on_host.begin(), on_host.end(), fewer)->second == 1;
    ring.port = Port::network;
    link.latency_s = std::max(alone ? 0.0 : link.latency_s, hardware_.inter_host.latency_s);
    link.bytes_per_s = std::min(alone ? kFree : link.bytes_per_s, ports * hardware_.inter_host.bytes_per_s);
  }
  ring.link.latency_s = std::max(ring.link.latency_s, link.latency_s);
  ring.link.bytes_per_s = std::min(ring.link.bytes_per_s, link.bytes_per_s);
}

const Link& Network::link(int from_pp, int to_pp) const {
  for (int column = 0; column < ranks_.num_columns(); ++column) {
    if (host_of(ranks_.rank_of(column, from_pp)) != host_of(ranks_.rank_of(column, to_pp))) return hardware_.inter_host;
  }
  return hardware_.intra_host;
}

}  // namespace weft
