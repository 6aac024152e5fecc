// The program that runs, for commands that start it again.
#pragma once

#include <string>

namespace weft {

/// A path that starts this program, also when its file was replaced while it ran.
std::string this_executable();

}  // namespace weft
