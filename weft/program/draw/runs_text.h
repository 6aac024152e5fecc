// runs_text: a set of numbers as people write it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft {

/// Ascending numbers as text: "0-3, 8"; after `most` runs "..." stands for the rest.
std::string runs_text(const std::vector<int>& numbers, size_t most);

}  // namespace weft
