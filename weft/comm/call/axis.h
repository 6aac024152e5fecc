// Axis: one line of ranks through a mesh, or several lines joined.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Ranks of one or several joined lines through a mesh, including this rank.
struct Axis {
  std::string name;        ///< "dp", or "dp+shard" for a joined axis
  std::vector<int> ranks;  ///< world ranks on it, in axis order
  int index = 0;           ///< this rank's position in `ranks`
  /// Number of ranks.
  int size() const { return static_cast<int>(ranks.size()); }
};

}  // namespace weft
