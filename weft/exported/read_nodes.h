// Reads the nodes of a program's JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "weft/exported/graph.h"

namespace weft {

/// Appends the nodes, and adds them to the digest. Those of a region (torch.no_grad(), or autocast that is switched off) come
/// in place of it, with the shapes of their values. Throws FileError for damage.
void read_nodes(ExportedGraph& graph, const nlohmann::json& nodes);

}  // namespace weft
