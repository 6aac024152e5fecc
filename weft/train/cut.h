// cut: where a recipe's model is cut into stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// "3,2,3" as numbers, each at least 1; empty for "auto" and "even". Throws InputError for any other text.
std::vector<int64_t> stages_by_hand(const std::string& text);

/// Throws InputError unless stages by hand have as many blocks as the model.
void check_stages_by_hand(const std::string& text, int blocks);

struct CutOptions {
  const std::string& choice;         ///< layout.stages
  int stages = 1;                    ///< of the schedule
  std::vector<double> seconds = {};  ///< of each block, in any unit
};

/// The first block of each stage. Throws InputError for stages by hand that are not those of the schedule and the model.
std::vector<int> choose_cut(const CutOptions& options);

}  // namespace weft
