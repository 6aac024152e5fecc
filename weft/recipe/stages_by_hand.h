// stages_by_hand: the blocks of each stage, as a recipe tells them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// The numbers of a text such as "3,2,3", each at least 1; empty for "auto" and "even". Throws InputError for any other text.
std::vector<int64_t> stages_by_hand(const std::string& text);

/// Throws InputError unless stages by hand have as many blocks as the model.
void check_stages_by_hand(const std::string& text, int blocks);

}  // namespace weft
