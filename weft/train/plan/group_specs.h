// group_specs: which groups of ranks a step uses. What make_groups() makes and the memory estimate prices is read off this
// list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/program/program.h"

namespace weft {

/// What a group is for.
enum class GroupUse : uint8_t {
  data,      ///< ranks that read different samples
  replicas,  ///< ranks that hold the same part of the state
  shards,    ///< ranks that share one replica's state, but for the pipeline
  inner,     ///< those of them that keep whole weights divided from forward to backward
  pipeline,  ///< ranks that hold the stages of one pipeline
  model,     ///< pipeline and shards
  world,     ///< all; where there is a pipeline
  tied,      ///< pipeline ranks that hold one block
};

/// Ranks that communicate, and what for.
struct GroupSpec {
  std::vector<GroupUse> uses;     ///< that share it, as they are of the same ranks
  std::vector<std::string> axes;  ///< of the mesh, joined
  int ranks = 1;                  ///< of the group that a rank is in
  int64_t message_bytes = 0;      ///< GroupOptions::message_bytes; 0: as they are
  int block = -1;                 ///< tied: which one
};

/// The groups of a rank with this index on the pipeline axis, in the order in which all ranks make them. A use that is not
/// listed is that rank alone.
std::vector<GroupSpec> group_specs(const Program& program, int pp_rank);

}  // namespace weft
