// partition_stages: cuts a recipe's model into stages.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/found.h"

namespace weft {

/// Inputs of a cut.
struct CutOptions {
  const std::string& choice;         ///< layout.stages
  int stages = 1;                    ///< number of stages of the schedule
  std::vector<double> seconds = {};  ///< time of each block, in any unit
};

/// Returns the first block of each stage; why_not if the model cannot be cut into the schedule's stages, or custom stages
/// differ in number. Throws InputError for custom stages that do not match the model.
Found<std::vector<int>> choose_cut(const CutOptions& options);

/// Limits of a cut.
struct FitOptions {
  std::vector<double> seconds;     ///< time of each block, in any unit
  std::vector<int> rank_of_stage;  ///< as in the schedule
  int64_t max_bytes = 0;           ///< limit per rank
  int most_tries = 0;              ///< limit on calls of rank_bytes
  std::function<std::vector<int64_t>(const std::vector<int>& first_block)> rank_bytes;
};

/// Returns a cut within max_bytes, found from `first_block` by moving one block at a time between stages: first while the
/// fullest ranks get smaller, then while the slowest ranks get faster. Empty if this search ends above max_bytes.
std::optional<std::vector<int>> fit_cut(const FitOptions& options, const std::vector<int>& first_block);

}  // namespace weft
