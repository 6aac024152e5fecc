// partition_stages: where a recipe's model is cut into stages.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/found.h"

namespace weft {

/// What is cut, and how.
struct CutOptions {
  const std::string& choice;         ///< layout.stages
  int stages = 1;                    ///< of the schedule
  std::vector<double> seconds = {};  ///< of each block, in any unit
};

/// The first block of each stage; none where the model cannot be cut into those of the schedule, or stages by hand are not as
/// many. Throws InputError for stages by hand that are not those of the model.
Found<std::vector<int>> choose_cut(const CutOptions& options);

/// What a cut must fit.
struct FitOptions {
  std::vector<double> seconds;     ///< of each block, in any unit
  std::vector<int> rank_of_stage;  ///< of the schedule
  int64_t max_bytes = 0;           ///< of a rank
  int most_tries = 0;              ///< calls of rank_bytes
  std::function<std::vector<int64_t>(const std::vector<int>& first_block)> rank_bytes;
};

/// A cut that keeps max_bytes, found from `first_block` by moving a block at a time from stage to stage: first as long as the
/// fullest ranks then hold less, then as long as the slowest ranks are then faster. None where that ends above max_bytes.
std::optional<std::vector<int>> fit_cut(const FitOptions& options, const std::vector<int>& first_block);

}  // namespace weft
