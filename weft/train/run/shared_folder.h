// Whether the folder that a run saves to is the same one on all of its hosts.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/comm/world.h"

namespace weft {

/// Notes for people on hosts that do not see what rank 0 writes to `folder`: each has files of its own there, and a checkpoint
/// can be loaded only where all of its files are. None for one host, for no folder, and on other ranks than 0. Waits up to 3 s
/// for a file system that shows late what another host wrote. Tensors are on `device`. Collective over the world. Throws as the
/// folder's storage does.
std::vector<std::string> shared_folder_notes(const std::string& folder, const World& world, const Group& all,
                                             at::Device device);

}  // namespace weft
