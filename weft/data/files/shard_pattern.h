// Patterns for many file names, as in shells and WebDataset: "train-{0000..0146}.tar", "train-*.tar".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Expands the braces of `pattern`, in order: {a,b} to its parts, {008..012} to its numbers, zero-padded as the first; several
/// braces to all combinations. Braces do not nest. Without braces, returns the pattern itself. Throws InputError for a brace
/// that is not closed, and for more than a million names.
std::vector<std::string> expand_braces(const std::string& pattern);

/// True if `name` contains '*' or '?'.
bool is_glob(std::string_view name);

/// True if a name matches a pattern, in which '*' stands for any text and '?' for one byte.
bool fits_glob(std::string_view name, std::string_view pattern);

}  // namespace weft
