// What measurements of scaling found, from the summaries of their runs, as a table, as JSON and as a picture.
#pragma once

#include <string>
#include <vector>

#include "weft/study/scale_grid.h"

namespace weft {

/// What came of a measurement: medians of its runs. Rates are those of the median step, so that a row is of one piece.
struct ScaleResult {
  ScalePoint point = {};       ///< which
  std::string failure = {};    ///< why there is none; empty: there is one
  double samples_per_s = 0.0;  ///< of the global batch
  double tokens_per_s = 0.0;   ///< 0 for models that do not read tokens
  double step_ms = 0.0;        ///< the median step of a run
  double least_step_ms = 0.0;  ///< of the quickest run
  double most_step_ms = 0.0;   ///< of the slowest
  int runs = 1;                ///< that were made
  double communication_share =
      0.0;  ///< of the steps' time, 0 to 1: in collectives, waiting for other ranks included; the most of all ranks
  double peak_rss_mb = 0.0;  ///< the most of all ranks
};

/// Measurements, and what they were made on.
struct ScaleStudy {
  std::string recipe = {};                ///< its path
  int cores = 1;                          ///< that this machine has for them
  int threads = 1;                        ///< of each rank, whatever their number
  std::vector<ScaleResult> results = {};  ///< of all points, in their order
};

/// What a run's summary says of a point. Throws InputError, naming `path`, for a text that no run wrote.
ScaleResult parse_scale_point(const ScalePoint& point, const std::string& text, const std::string& path);

/// The median of several runs of a point; of the first failure, where one failed.
ScaleResult median_of_runs(const std::vector<ScaleResult>& runs);

/// How far the runs of a point lie apart, as a share of their median: (most - least) / median.
double spread(const ScaleResult& result);

/// Samples a second over what the smallest number of ranks of the same mode and layout makes of it, in proportion: 1 is ideal.
/// 0 where there is nothing to compare.
double efficiency(const ScaleStudy& study, const ScaleResult& result);

/// A row for each point: rate, efficiency, time of a step and its spread, communication, memory. Lines say where ranks share
/// cores, and where the spread hides whether more ranks are faster.
std::string scale_table(const ScaleStudy& study);

/// All of it as JSON.
std::string scale_json(const ScaleStudy& study);

/// Samples a second against ranks, a line for each mode and layout, with the ideal as dashes and the runs' spread as whiskers.
/// A layout has a colour, a mode a mark. Empty where nothing was measured.
std::string scale_chart(const ScaleStudy& study);

}  // namespace weft
