// Results of scaling measurements, from the summaries of their runs: as a table, as JSON and as a chart.
#pragma once

#include <string>
#include <vector>

#include "weft/study/scale_grid.h"

namespace weft {

/// The result of a measurement: medians of its runs. Rates belong to the median step, so that a row is consistent.
struct ScaleResult {
  ScalePoint point = {};       ///< the measured point
  std::string failure = {};    ///< why there is no result; empty: there is one
  double samples_per_s = 0.0;  ///< rate for the global batch
  double tokens_per_s = 0.0;   ///< 0 for models that do not read tokens
  double step_ms = 0.0;        ///< median step time of a run
  double least_step_ms = 0.0;  ///< median step time of the fastest run
  double most_step_ms = 0.0;   ///< median step time of the slowest run
  int runs = 1;                ///< number of runs made
  double communication_share =
      0.0;  ///< share of the step time in collectives, waiting for other ranks included, 0 to 1; the maximum over ranks
  double peak_rss_mb = 0.0;  ///< maximum over ranks
};

/// Measurements, and the machine they ran on.
struct ScaleStudy {
  std::string recipe = {};                ///< path of the recipe
  int cores = 1;                          ///< cores of this machine; 0: unknown
  int threads = 1;                        ///< threads per rank, for any number of ranks; 0: unknown
  std::vector<ScaleResult> results = {};  ///< one per point, in the order of the points
};

/// Reads a point's result from a run's summary. Throws InputError naming `path` for text that is not a run's summary.
ScaleResult parse_scale_point(const ScalePoint& point, const std::string& text, const std::string& path);

/// The median of several runs of a point; the first failure, if any failed.
ScaleResult median_of_runs(const std::vector<ScaleResult>& runs);

/// Relative spread of a point's runs: (most - least) / median.
double spread(const ScaleResult& result);

/// Scaling efficiency: samples per second relative to ideal scaling from the fewest ranks in the same mode and layout. 1 is
/// ideal; 0 if there is nothing to compare with.
double efficiency(const ScaleStudy& study, const ScaleResult& result);

/// Formats one row per point: rate, efficiency, step time and its spread, communication, memory. Notes say where ranks share
/// cores, and where the spread hides whether more ranks are faster.
std::string scale_table(const ScaleStudy& study);

/// Formats everything as JSON.
std::string scale_json(const ScaleStudy& study);

/// Plots samples per second vs ranks, one line per mode and layout, with dashed ideal lines and whiskers for the spread.
/// Colours show layouts, marks show modes. Empty if nothing was measured.
std::string scale_chart(const ScaleStudy& study);

/// Plots the efficiency in the same way, in % of ideal scaling.
std::string efficiency_chart(const ScaleStudy& study);

/// Cells of scale_table(): a heading, then a row per point; one that was not measured ends with the reason.
std::vector<std::vector<std::string>> scale_cells(const ScaleStudy& study);

}  // namespace weft
