// Stragglers: ranks that slow down the others, found during the run from the time of each rank's own work.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/comm/mesh.h"
#include "weft/train/watch/slow_links.h"

namespace weft {

/// Time of a rank's own work in a step, without collectives, which include waiting for others.
struct OwnTime {
  double data_s = 0.0;     ///< waiting for samples
  double compute_s = 0.0;  ///< everything else
  double total_s() const { return data_s + compute_s; }
};

/// A rank slower than those with the same work.
struct Straggler {
  int rank = 0;
  double times = 1.0;    ///< time of its own work, relative to the median of the others
  bool in_data = false;  ///< waiting for samples contributes more to the difference than computing
  OwnTime own, others;   ///< medians
};

/// Finds ranks that take at least `factor` times the median of the others in their class, and 1 ms more. `ranks` and `classes`
/// are by rank; a rank alone in its class is not compared.
std::vector<Straggler> find_stragglers(const std::vector<OwnTime>& ranks, const std::vector<int>& classes, double factor = 1.3);

/// Formats a straggler: "rank 3 on host b is behind: its steps take 1.52x the others' median (41.0 ms vs 27.0 ms), in compute".
std::string straggler_text(const Straggler& straggler, const std::string& host);

/// Compares the ranks of a run every kWindow steps. A straggler is reported once, and again only after it has recovered.
class StragglerWatch {
 public:
  static constexpr int kWindow = 20;  ///< steps per median

  /// Ranks with the same pipeline index do the same work.
  StragglerWatch(const Mesh& mesh, const Group& all, at::Device device);

  /// Adds a step of this rank, and its additional time in collectives. After the last step of a window, collective over the
  /// world: returns new stragglers and, if links are measured, slow ones (slow_links.h); the same lines on all ranks.
  std::vector<std::string> add(const OwnTime& step, double communicated_s);
  /// The rank of the last window with the most own time, compared with those that have its work; empty before the first window.
  const std::optional<Straggler>& slowest() const { return slowest_; }

 private:
  World world_;
  Group all_;
  at::Device device_;
  std::vector<int> classes_;
  LinkWatch links_;
  std::vector<OwnTime> steps_;
  double steps_s_ = 0.0, communicated_s_ = 0.0;  ///< over the window
  std::vector<bool> reported_;
  std::optional<Straggler> slowest_;
};

}  // namespace weft
