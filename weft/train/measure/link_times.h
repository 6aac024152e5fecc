// Measures links: the times of messages and collectives between the ranks of a world.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/comm/world.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// Rounds to the precision of a measurement.
double four_digits(double value);

/// Seconds per call, the median of `calls` after one warm-up. Collective over the group if the call is.
double time_of(const Group& group, const std::function<void()>& call, int calls = 9);

/// The mean of each value over the ranks of the group, to four digits. Collective.
std::vector<double> mean_over_ranks(std::vector<double> values, const Group& group, at::Device device);

/// The link of a group's all-reduces, from a short and a long one: seconds = rounds x latency + bytes / rate; with n ranks each
/// sends 2 (n-1)/n of the bytes, in 2 (n-1) rounds of a ring or 2 rounds of two levels. `beside`: the long ones run as in a
/// training step on CPUs, started early while other work is computed. Collective.
Link measure_link(const Group& group, at::Device device, int rounds, bool beside);

/// Ranks per host: the longest run of consecutive ranks on one host.
int ranks_per_host(const World& world);
/// Returns true if ranks 0 to `per_host` - 1 share a host, the next `per_host` ranks the next one, and so on.
bool are_hosts_even(const World& world, int per_host);

/// Measures the links of a world and sets ranks_per_host, intra_host and inter_host in `hardware`; links that its ranks do not
/// use stay unknown. All ranks measure at once, because ranks of a host share its ports. On CPUs the links are those of
/// two-level collectives (comm/two_level). Collective.
void measure_links(Hardware& hardware, const World& world, const GroupOptions& options);

/// Message times between two ranks.
struct PairTime {
  int first = 0, second = 0;
  bool one_host = false;
  bool shares_cores = false;       ///< on one host with more ranks than cores: times tell of turns on a core, not of a link
  double latency_s = 0.0;          ///< one way
  double bytes_per_s[2] = {0, 0};  ///< from the first to the second, and back
  double slower() const { return bytes_per_s[0] < bytes_per_s[1] ? bytes_per_s[0] : bytes_per_s[1]; }
};

/// Measures the pairs of pair_rounds(), round by round so that they do not disturb each other, sorted by rank. Each round ends
/// within the group's timeout. Collective over the world; the same on all ranks.
std::vector<PairTime> measure_pairs(const World& world, const Group& all);

/// Finds slow pairs, and hosts whose links are all slow: below `share` of the median rate of their kind (inside hosts, between
/// hosts) or, between hosts, above 1 / `share` times the median latency. Pairs that share cores are not compared. One line
/// each; empty if no link is slow.
std::vector<std::string> slow_links(const std::vector<PairTime>& pairs, const std::vector<std::string>& hosts,
                                    double share = 0.6);

/// Times of collectives over all ranks.
struct CallTimes {
  int64_t bytes = 0;  ///< of the whole tensor
  double all_reduce = 0.0, reduce_scatter = 0.0, all_gather = 0.0;
};

/// Times collectives of float32 from 4 KiB to `most_bytes`; reports each size once measured. Collective; the same on all ranks.
void measure_calls(const Group& all, int64_t most_bytes, const std::function<void(const CallTimes&)>& report);

}  // namespace weft
