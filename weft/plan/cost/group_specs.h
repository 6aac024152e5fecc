// group_specs: which groups of ranks a step uses. What make_groups() makes and the memory estimate prices is read off this
// list.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"

namespace weft {

/// Ranks that communicate.
struct GroupSpec {
  std::vector<AxisSet> axes;  ///< sets that stand for these ranks; the first names them
  int ranks = 1;              ///< of the group that a rank is in
  int64_t message_bytes = 0;  ///< GroupOptions::message_bytes; 0: as they are
  int block = -1;             ///< where it is the pipeline ranks that hold one block (tied weights): which one
  bool gradients = false;  ///< beside another of the same ranks: for sums of gradients, which alone are rounded between hosts
};

/// The groups of a rank with this index on the pipeline axis, in the order in which all ranks make them, kDataAxes first. Along
/// axes that are in none a rank is alone. `rounds`: sums of gradients are rounded between hosts (layout.across_hosts).
std::vector<GroupSpec> group_specs(const Program& program, int pp_rank, bool rounds = false);

}  // namespace weft
