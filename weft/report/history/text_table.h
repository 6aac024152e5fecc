// text_table: rows of short texts in aligned columns, for terminals and logs.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Columns two blanks apart, each as wide as its widest text: the first is aligned to the left, the others to the right. Each
/// line begins with `indent` and has no blanks at its end; rows may have fewer cells than others.
std::string text_table(const std::vector<std::vector<std::string>>& rows, const std::string& indent = "");

}  // namespace weft
