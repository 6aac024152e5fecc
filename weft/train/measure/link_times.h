// Links as they are: what messages and collectives take between the ranks of a world, measured.
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

/// A measured value, to no more digits than measuring is good for.
double four_digits(double value);

/// Seconds of one call, the median of `calls` after one that does not count. Collective over the group, as the call is.
double time_of(const Group& group, const std::function<void()>& call, int calls = 9);

/// The mean of each value over the ranks of the group, to four digits. Collective.
std::vector<double> mean_over_ranks(std::vector<double> values, const Group& group, at::Device device);

/// The link of a group's all-reduces, from a short and a long one: seconds = rounds x latency + bytes / rate, where one among n
/// ranks has 2 (n-1)/n of the bytes, and 2 (n-1) rounds in a ring, 2 in two levels. `beside`: the long ones as a step on CPUs
/// makes them, one called ahead while something else is computed. Collective.
Link measure_link(const Group& group, at::Device device, int rounds, bool beside);

/// How many neighbours by rank share a host: the longest run of them.
int ranks_per_host(const World& world);
/// Whether every such run is as long as that.
bool are_hosts_even(const World& world, int per_host);

/// The links of a world, into `hardware`: ranks_per_host, and of intra_host and inter_host those that its ranks use; the others
/// are not known. Each is measured by all ranks at once, as ranks of a host share its ports. On CPUs they are those of two
/// levels. Collective.
void measure_links(Hardware& hardware, const World& world, const GroupOptions& options);

/// What messages between two ranks take.
struct PairTime {
  int first = 0, second = 0;
  bool one_host = false;
  double latency_s = 0.0;          ///< one way
  double bytes_per_s[2] = {0, 0};  ///< from the first to the second, and back
  double slower() const { return bytes_per_s[0] < bytes_per_s[1] ? bytes_per_s[0] : bytes_per_s[1]; }
};

/// The pairs of pair_rounds(), in its rounds, so that none disturbs another, by rank. Each round ends within the group's
/// timeout. Collective over the world; the same on all ranks.
std::vector<PairTime> measure_pairs(const World& world, const Group& all);

/// What is slow among pairs: a pair, or a host all of whose links are, below `share` of the median rate of its kind (inside
/// hosts, between hosts), or between hosts with more than 1 / `share` times the median latency. One line each; none where all
/// are alike.
std::vector<std::string> slow_links(const std::vector<PairTime>& pairs, const std::vector<std::string>& hosts,
                                    double share = 0.6);

/// Seconds of collectives of all ranks.
struct CallTimes {
  int64_t bytes = 0;  ///< of the whole tensor
  double all_reduce = 0.0, reduce_scatter = 0.0, all_gather = 0.0;
};

/// Those of float32 from 4 KiB to `most_bytes`; each size is told as soon as it is measured. Collective; the same on all ranks.
void measure_calls(const Group& all, int64_t most_bytes, const std::function<void(const CallTimes&)>& tell);

}  // namespace weft
