// Names of many files in one word, as shells and WebDataset write them: "train-{0000..0146}.tar", "train-*.tar".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The names that the braces of `pattern` stand for, in order: {a,b} each of its parts, {008..012} each number, as wide as the
/// first one is; several braces all combinations, not nested. Without braces the pattern itself. Throws InputError for one that
/// does not close, or stands for more than a million names.
std::vector<std::string> expand_braces(const std::string& pattern);

/// Whether there is a '*' or '?' in it.
bool is_glob(std::string_view name);

/// Whether a name fits a pattern, where '*' stands for any text and '?' for one byte.
bool fits_glob(std::string_view name, std::string_view pattern);

}  // namespace weft
