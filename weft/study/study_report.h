// Results of a study, as a table, as JSON and as a chart.
#pragma once

#include <string>
#include <vector>

#include "weft/study/study_result.h"

namespace weft {

/// A study and its results.
struct Study {
  std::string recipe = {};                ///< path of the recipe
  std::string target = {};                ///< target of all points
  int ranks = 1;                          ///< ranks per point
  std::vector<PointResult> results = {};  ///< one per point, in their order
};

/// Describes the outcome of one point: "reached after 420 steps of 64 (26.9 k samples)".
std::string outcome_text(const PointResult& result);

/// Formats one row per batch and optimizer: the best rate, the steps between which the target was reached, the samples up to
/// there, accuracy and loss, and the outcomes of the other rates. Ends with a line for each best rate at the edge of the rates
/// tried.
std::string study_table(const Study& study);

/// Cells of the table: a heading, then its rows.
std::vector<std::vector<std::string>> study_cells(const Study& study);

/// Formats everything as JSON; unknown values are null.
std::string study_json(const Study& study);

/// Plots steps to the target vs batch, one line per optimizer, each with the dashed line of perfect scaling from its smallest
/// batch, as in arXiv:1811.03600, Figure 1. Whiskers go down to the last evaluation that did not reach the target. Empty if no
/// point reached it.
std::string study_chart(const Study& study);

}  // namespace weft
