// Cuts an exported graph into blocks at the boundaries of its modules.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "weft/exported/graph.h"
#include "weft/exported/value_flow.h"

namespace weft {

/// Consecutive nodes that become a block.
struct NodeRange {
  std::string name;  ///< path of its main module; a further range of the same module: "h.0@2"
  size_t first = 0, last = 0;
};

/// Cuts where the module changes. "auto": the modules below the whole model, and in place of one with over half of the
/// parameters those below it; one with under 1 % of the parameters joins the block before it. Otherwise patterns of module
/// paths
/// ("h.*, head"; '*' matches any text): each matching module is a block, as is what runs between two of them and has
/// parameters. Throws InputError for a pattern that matches no module, and for a cut that would lose a change in place.
std::vector<NodeRange> cut_graph(const ExportedGraph& graph, const ValueFlow& flow, const std::string& blocks);

}  // namespace weft
