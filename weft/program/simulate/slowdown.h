// Slowdown: how much longer compute takes because collectives beside it use the device's processors and memory.
//
// Counts the time that compute and known collectives of a rank share, at CollectiveCosts::taken_from_compute. A collective that
// becomes known only while an instruction runs slows those that start later.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weft {

/// Slowdown of all simulated ranks ("sides").
class Slowdown {
 public:
  /// `share`: seconds of compute per second beside a collective.
  Slowdown(size_t num_sides, double share) : share_(share), under_way_(share > 0.0 ? num_sides : 0) {}

  /// A collective moves bytes on a side.
  void add(int side, double begin_s, double end_s);
  /// Seconds by which compute that begins at `begin_s`, not before that of the previous call, takes longer than `seconds`.
  double more(int side, double begin_s, double seconds);

 private:
  double share_;
  std::vector<std::vector<std::pair<double, double>>> under_way_;  // by side; empty: no slowdown
};

}  // namespace weft
