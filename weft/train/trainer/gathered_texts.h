// gathered_texts: brings a text of each rank to rank 0 through the store, which works where collectives fail.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "weft/comm/world.h"

namespace weft {

/// Returns the texts by rank, on rank 0; nothing on the others, which do not wait. All ranks call it. `what` names the
/// gathering in errors. Throws CommError that names a rank that does not arrive within `timeout`.
std::vector<std::string> gathered_texts(const World& world, const std::string& what, const std::string& own,
                                        std::chrono::milliseconds timeout);

}  // namespace weft
