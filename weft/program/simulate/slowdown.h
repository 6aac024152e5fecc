// Slowdown: how much longer compute takes because collectives beside it use the device's processors and memory.
//
// Counts the time that compute and collectives of a rank share, at CollectiveCosts::taken_from_compute. What a collective that
// becomes known only while an instruction runs takes from it is added to the next one.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weft {

/// Slowdown of all simulated ranks ("sides").
class Slowdown {
 public:
  /// `share`: seconds of compute per second beside a collective.
  Slowdown(size_t num_sides, double share) : share_(share), sides_(share > 0.0 ? num_sides : 0) {}

  /// A collective moves bytes on a side.
  void add(int side, double begin_s, double end_s);
  /// Seconds by which compute that begins at `begin_s`, not before that of the previous call, takes longer than `seconds`.
  double more(int side, double begin_s, double seconds);

 private:
  struct Side {
    std::vector<std::pair<double, double>> under_way;  // begin and end of collectives
    std::pair<double, double> computing = {};          // begin and end of the latest compute
    double owed_s = 0.0;                               // what collectives known since it began take from it
  };
  double share_;
  std::vector<Side> sides_;  // empty: no slowdown
};

}  // namespace weft
