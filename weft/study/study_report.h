// What a study found, as a table, as JSON and as a picture.
#pragma once

#include <string>
#include <vector>

#include "weft/study/study_result.h"

namespace weft {

/// A study and what came of it.
struct Study {
  std::string recipe = {};                ///< its path
  std::string target = {};                ///< of all points
  int ranks = 1;                          ///< of each point
  std::vector<PointResult> results = {};  ///< of all its points, in their order
};

/// What became of one point: "reached after 420 steps of 64 (26.9 k samples)".
std::string outcome_text(const PointResult& result);

/// A row for each batch and optimizer: the best rate, between which steps the target was reached, the samples up to there,
/// accuracy and loss; what the other rates came to; and how fine that is. Ends with a line where the best rate is the least or
/// the largest that was tried.
std::string study_table(const Study& study);

/// All of it as JSON; what is not known is null.
std::string study_json(const Study& study);

/// Steps to the target against the batch, a line for each optimizer, each with the dashed line of perfect scaling from its
/// smallest batch on, as in arXiv:1811.03600, Figure 1. Whiskers go down to the evaluation before the one that told. Empty
/// where no point reached the target.
std::string study_chart(const Study& study);

}  // namespace weft
