// The closest valid word to a mistyped one, for errors that say "did you mean".
#pragma once

#include <climits>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Returns the fewest edits that turn `a` into `b`: insertions, deletions, replacements and swaps of neighbouring letters.
int edit_distance(std::string_view a, std::string_view b);

/// Returns the first candidate at the smallest edit distance from `word`, ignoring case. Empty if all are farther than `most`.
/// Only the first 200 letters of a word count.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates, int most = INT_MAX);

}  // namespace weft
