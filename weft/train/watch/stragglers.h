// Ranks that hold up the others: found from what each rank's steps take of their own, while the run goes on.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/comm/mesh.h"
#include "weft/train/watch/slow_links.h"

namespace weft {

/// What a step of a rank takes of its own, without the time in collectives, in which it also waits for others.
struct OwnTime {
  double data_s = 0.0;     ///< waiting for samples
  double compute_s = 0.0;  ///< all the rest
  double total_s() const { return data_s + compute_s; }
};

/// A rank that is behind those that do the same work.
struct Straggler {
  int rank = 0;
  double times = 1.0;    ///< what its steps take of their own, beside the median of the others'
  bool in_data = false;  ///< more of the difference is waiting for samples than computing
  OwnTime own, others;   ///< medians
};

/// The ranks that take at least `factor` times the median of the others of their class, and 1 ms more. `ranks` and `classes` go
/// by rank; a rank that is alone in its class is compared with nobody.
std::vector<Straggler> find_stragglers(const std::vector<OwnTime>& ranks, const std::vector<int>& classes, double factor = 1.3);

/// A straggler as a line: "rank 3 on host b is behind: its steps take 1.52 times what others' take (41.0 ms beside 27.0 ms), in
/// computing".
std::string straggler_text(const Straggler& straggler, const std::string& host);

/// Compares the ranks of a run every kWindow steps. A rank is told once, and again after it was not behind for a while.
class StragglerWatch {
 public:
  static constexpr int kWindow = 20;  ///< steps, of each of which the median counts

  /// Ranks of one pipeline rank do the same work.
  StragglerWatch(const Mesh& mesh, const Group& all, at::Device device);

  /// Adds a step of this rank, and what it spent in collectives besides. After the last of a window, collective over the world:
  /// the stragglers that are new and, where links are looked at, slow ones (slow_links.h); the same lines on all ranks.
  std::vector<std::string> add(const OwnTime& step, double communicated_s);

 private:
  World world_;
  Group all_;
  at::Device device_;
  std::vector<int> classes_;
  LinkWatch links_;
  std::vector<OwnTime> steps_;
  double steps_s_ = 0.0, communicated_s_ = 0.0;  ///< of the window
  std::vector<bool> told_;
};

}  // namespace weft
