// group_specs: the process groups of a step, which make_groups() creates and the memory estimate counts.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"

namespace weft {

/// A process group.
struct GroupSpec {
  std::vector<AxisSet> axes;  ///< axis sets that join these ranks; the first names the group
  int ranks = 1;              ///< ranks in one group
  int64_t message_bytes = 0;  ///< GroupOptions::message_bytes; 0: the default
  int block = -1;             ///< the block whose pipeline ranks it joins (tied weights); -1: none
  bool gradients = false;     ///< a second group of the same ranks for gradient sums, the only ones rounded between hosts
};

/// Groups of a rank with this index on the pipeline axis, in the order in which all ranks make them, kDataAxes first. Along
/// axes without a group, a rank is alone. `rounds`: gradient sums are rounded between hosts (layout.across_hosts).
std::vector<GroupSpec> group_specs(const Program& program, int pp_rank, bool rounds = false);

}  // namespace weft
