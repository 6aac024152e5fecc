// Recognizes files given as weights by mistake: the usual cases, by their first bytes.
#pragma once

#include <string>
#include <string_view>

#include "weft/base/file_kind.h"

namespace weft {

/// Recognizes a file by its first kHeadBytes. Returns what it is and what to do, "a Git LFS pointer, not the file itself; fetch
/// it with `git lfs pull`"; empty for an unknown kind.
std::string describe_foreign_file(std::string_view head);

}  // namespace weft
