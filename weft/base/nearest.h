// The valid word a mistyped one was probably meant to be, for errors that say "did you mean".
#pragma once

#include <climits>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The fewest insertions, deletions, replacements and swaps of neighbouring letters that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate at the smallest edit distance from `word`, upper and lower case counting as equal; the first of several.
/// Empty where none is within a distance of `most`: more is another word. Only the first 200 letters of a word count.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates, int most = INT_MAX);

}  // namespace weft
