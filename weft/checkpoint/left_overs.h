// Files that a writer names before they are whole, and that it leaves behind when it is killed: their names, and their removal.
#pragma once

#include <string>

namespace weft {

/// A name for a file that is not whole yet, "FOLDER/.weft-HOST-PID-N.partial": that of no other writer that is alive, on any
/// host.
std::string partial_name(const std::string& folder, int number);

/// Holds the file of `descriptor` for this process until it is closed. False where somebody else holds it, or where it has no
/// name any more: remove_left_overs() came between. True where the file system has no locks.
bool hold_partial(int descriptor);

/// Removes the files of that form in `folder` which this host's writers named and no process holds. Errors are ignored: it is
/// somebody else's rubbish.
void remove_left_overs(const std::string& folder);

}  // namespace weft
