// Standard output of the command: written so that a failure to write is an error. Whoever piped or redirected it into a file
// would otherwise take what is there for all.
#pragma once

#include <string_view>

namespace weft {

/// In one piece, at once: a log that is watched should not lag behind. Throws Error when it cannot be written (a full disk, a
/// limit on file sizes).
void write_out(std::string_view text);

}  // namespace weft
