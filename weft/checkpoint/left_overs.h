// Partial files: names for files that are still being written, and removal of those that a killed writer left behind.
#pragma once

#include <string>

namespace weft {

/// Returns a name for an unfinished file, "FOLDER/.weft-HOST-PID-N.partial", that no other live writer on any host uses.
std::string partial_name(const std::string& folder, int number);

/// Locks the file of `descriptor` for this process until it is closed. Returns false if another process has locked it, or if
/// remove_left_overs() has unlinked it meanwhile; true where the file system has no locks.
bool hold_partial(int descriptor);

/// Removes this host's partial files in `folder` that no process has locked. Ignores errors: the files belong to others.
void remove_left_overs(const std::string& folder);

}  // namespace weft
