// Checks of what lies between ranks: the speed of links, as weft netcheck measures it, and the clocks of hosts.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <string>
#include <vector>

#include "weft/comm/call/group_options.h"
#include "weft/comm/world.h"
#include "weft/train/check/check_line.h"
#include "weft/train/measure/link_times.h"

namespace weft {

/// Measures every pair of ranks (link_times.h), again up to two times while a link is slow, because another process may have
/// disturbed it, and names links that are slow each time. On accelerators also an all-reduce of their tensors. Collective over
/// the world; lines on rank 0.
std::vector<CheckLine> check_links(const World& world, BackendKind backend, at::Device device,
                                   std::chrono::milliseconds timeout);

/// The line about pairs: the range of their rates and latencies, or the slow ones.
CheckLine links_line(const std::vector<PairTime>& pairs, const std::vector<std::string>& hosts);

/// Compares the system clock of each host with rank 0's, through the store. Collective over the world; the result is on rank 0.
CheckLine check_clocks(const World& world, std::chrono::milliseconds timeout);

/// The line about clocks: each host's offset to rank 0's, and how exactly it was measured. Fails beyond a second.
struct ClockOffset {
  std::string host;
  double ahead_s = 0.0, within_s = 0.0;
};
CheckLine clocks_line(const std::vector<ClockOffset>& offsets);

}  // namespace weft
