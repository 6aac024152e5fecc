// Checks that a run's save folder is the same on all of its ranks.
#pragma once

#include <chrono>
#include <string>

#include "weft/comm/world.h"

namespace weft {

/// Throws InputError, on all ranks, if a rank does not see rank 0's files in `folder`, because its host has another folder of
/// that name or the rank has another working folder: a checkpoint can be loaded only where all its files are. Waits up to 3 s
/// for file systems that show other hosts' files late, and `timeout` for other ranks. Does nothing for one rank or an empty
/// folder. Collective over the world. Throws as the folder's storage does; other ranks then throw CommError with that text.
void check_shared_folder(const std::string& folder, const World& world, std::chrono::milliseconds timeout);

}  // namespace weft
