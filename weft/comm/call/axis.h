// Axis: one line of ranks through a mesh, or several lines joined.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Ranks of a line through a mesh, or of several lines joined, this rank among them.
struct Axis {
  std::string name;        ///< "dp", or "dp+shard" for a joined axis
  std::vector<int> ranks;  ///< world ranks on it, in axis order
  int index = 0;           ///< where this rank stands in `ranks`
  /// How many ranks are on it.
  int size() const { return static_cast<int>(ranks.size()); }
};

}  // namespace weft
