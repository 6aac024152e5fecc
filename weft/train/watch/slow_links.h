// Slow links between hosts, found during a run. In a collective all ranks wait for the slowest link, so no rank looks slow.
// Therefore the hosts form a ring, and now and then each sends a little data to the next.
#pragma once

#include <string>
#include <vector>

#include "weft/base/stopwatch.h"
#include "weft/comm/group.h"
#include "weft/comm/world.h"

namespace weft {

/// A slow link, or a host whose links are all slow.
struct SlowLink {
  std::string what;          ///< "host b has slow links", "the link from host a to host b is slow"
  double bytes_per_s = 0.0;  ///< of the link, or of the host's fastest link
};

/// Links below 0.3 of the usual rate. `rates[i]` is from `hosts[i]` to the next, cyclically. With two hosts it is unknown which
/// one is slow; with more, a host is slow if both of its links are.
std::vector<SlowLink> find_slow_links(const std::vector<std::string>& hosts, const std::vector<double>& rates, double usual);

/// Usual rate of a run's links: the upper quartile of these rates and of earlier rates that were not slow.
class UsualRate {
 public:
  /// Adds the rates of another measurement; returns the usual rate.
  double add(const std::vector<double>& rates);

 private:
  std::vector<double> known_;
};

/// Measures the links between hosts of a run. A link slow twice in a row is reported once, and again after it has recovered.
class LinkWatch {
 public:
  /// Measures nothing if tensors are on a GPU, or on a single host.
  LinkWatch(const World& world, const Group& all, at::Device device);

  /// Returns true if it is time to measure, by this rank's clock: at most a twentieth of the time is spent on it.
  bool is_due() const;
  /// Measures, and returns lines about slow links, the same on all ranks. Collective over the world. `waiting` is the share of
  /// time that ranks spend in collectives; if it is small no link is reported.
  std::vector<std::string> look(double waiting);

 private:
  double send_to_next(int link) const;
  std::vector<double> measure() const;

  Group all_;
  std::vector<std::string> hosts_;  ///< by first rank
  std::vector<int> firsts_;         ///< these ranks
  UsualRate usual_;
  std::vector<std::string> seen_, reported_;
  Stopwatch since_;
  double pause_s_ = 1.0;
};

}  // namespace weft
