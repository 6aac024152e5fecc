// stages_by_hand: the blocks of each stage, as listed in a recipe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Parses a list such as "3,2,3", each number at least 1; empty for "auto" and "even". Throws InputError for any other text.
std::vector<int64_t> stages_by_hand(const std::string& text);

/// Throws InputError unless the listed stages have as many blocks in total as the model.
void check_stages_by_hand(const std::string& text, int blocks);

}  // namespace weft
