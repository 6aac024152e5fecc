// What a file is that was taken for weights and is none: the usual mistakes, by their first bytes.
#pragma once

#include <string>
#include <string_view>

#include "weft/base/file_kind.h"

namespace weft {

/// What the file is and what to do, "a pointer of Git LFS, not the file itself; fetch it with `git lfs pull`", by its first
/// kHeadBytes; empty where they are none of those known.
std::string what_file_is(std::string_view head);

}  // namespace weft
