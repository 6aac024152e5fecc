// Slow links between hosts, found while a run goes on. In a collective all ranks wait for the slowest link, so none of them
// looks slow by itself: the hosts are lined up in a ring instead, and now and then each sends a little to the next.
#pragma once

#include <string>
#include <vector>

#include "weft/base/stopwatch.h"
#include "weft/comm/group.h"
#include "weft/comm/world.h"

namespace weft {

/// A host all of whose links are slow, or a link.
struct SlowLink {
  std::string what;          ///< "host b has slow links", "the link from host a to host b is slow"
  double bytes_per_s = 0.0;  ///< of the fastest of them
};

/// The links whose rate is below 0.3 of the usual one. `rates[i]` is from `hosts[i]` to the next, of the last to the first. Of
/// two hosts it cannot be told which one is slow; of more it is the one whose links both ways are.
std::vector<SlowLink> find_slow_links(const std::vector<std::string>& hosts, const std::vector<double>& rates, double usual);

/// What links of a run carry: the upper quartile of these rates and of those that were not slow before.
class UsualRate {
 public:
  /// Takes in the rates of another look.
  double add(const std::vector<double>& rates);

 private:
  std::vector<double> known_;
};

/// Looks at the links between the hosts of a run. A link is told when it was slow twice running, and again after it was not.
class LinkWatch {
 public:
  /// Ranks whose tensors are on a GPU look at nothing: there is nothing to look at on one host either.
  LinkWatch(const World& world, const Group& all, at::Device device);

  /// Whether it is time to look, by this rank's clock: not more than a twentieth of the time goes into that.
  bool is_due() const;
  /// Looks, and returns lines about slow links, the same on all ranks. Collective over the world. `waiting` is the share of
  /// their time that ranks spend in collectives; where that is little no link is told.
  std::vector<std::string> look(double waiting);

 private:
  double send_to_next(int link) const;
  std::vector<double> measure() const;

  Group all_;
  std::vector<std::string> hosts_;  ///< by their first ranks
  std::vector<int> firsts_;         ///< those ranks
  UsualRate usual_;
  std::vector<std::string> seen_, told_;
  Stopwatch since_;
  double pause_s_ = 1.0;
};

}  // namespace weft
