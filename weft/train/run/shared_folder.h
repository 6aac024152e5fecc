// Whether the folder that a run saves to is the same one for all of its ranks.
#pragma once

#include <chrono>
#include <string>

#include "weft/comm/world.h"

namespace weft {

/// Throws InputError, on all ranks, where one does not see what rank 0 writes to `folder`, because its host has another folder
/// of that name, or it another working folder: a checkpoint can be loaded only where all of its files are. Waits up to 3 s for
/// a file system that shows late what another host wrote; for other ranks `timeout`. Does nothing for one rank, and for no
/// folder. Collective over the world. Throws as the folder's storage does; other ranks then throw CommError with that text.
void check_shared_folder(const std::string& folder, const World& world, std::chrono::milliseconds timeout);

}  // namespace weft
