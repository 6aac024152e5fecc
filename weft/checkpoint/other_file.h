// What a file is that was taken for weights and is none: the usual mistakes, by their first bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

inline constexpr size_t kTellingBytes = 512;  ///< that a look at a file takes

/// What the file is and what to do, "a pointer of Git LFS, not the file itself; fetch it with `git lfs pull`", by its first
/// kTellingBytes; empty where they are none of those known.
std::string what_file_is(std::string_view head);

}  // namespace weft
