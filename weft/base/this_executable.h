// The running program, for commands that start it again.
#pragma once

#include <string>

namespace weft {

/// Returns a path that starts this program, even if its file was replaced while it ran.
std::string this_executable();

}  // namespace weft
