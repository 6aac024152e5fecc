// runs_text: readable text of a set of numbers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft {

/// Formats ascending numbers: "0-3, 8"; after `most` runs "..." replaces the rest.
std::string runs_text(const std::vector<int>& numbers, size_t most);

}  // namespace weft
