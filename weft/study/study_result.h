// StudyResult: the results of a study's points, read from their runs' summaries (report/summary.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/recipe/run_target.h"
#include "weft/study/study_grid.h"

namespace weft {

/// Outcome of a point.
enum class PointOutcome : uint8_t {
  reached,      ///< reached the target
  not_reached,  ///< did not reach it within its steps
  diverged,     ///< the loss became NaN or infinite
  failed,       ///< its run ended with an error
  missing,      ///< not run, or cut off
};
/// Names of the outcomes.
inline constexpr EnumNames<PointOutcome, 5> kPointOutcomes("reached", "not reached", "diverged", "failed", "not run");

/// Result of a point.
struct PointResult {
  StudyPoint point = {};                         ///< the point
  PointOutcome outcome = PointOutcome::missing;  ///< how it ended
  int64_t steps = 0;                             ///< steps done, up to the target if reached
  std::optional<double> loss = {};               ///< loss of the last evaluation; empty: not a number, or not run
  std::optional<double> accuracy = {};           ///< accuracy of the last evaluation, likewise
  double learning_rate = 0.0;                    ///< peak rate, scaled as the recipe says
  double seconds = 0.0;                          ///< training time
  std::string reason = {};                       ///< why it failed or diverged

  int64_t samples() const { return steps * point.batch; }  ///< trained on
  /// Lower bound on the steps to the target: one after the last evaluation that missed it.
  int64_t least_steps() const;
};

/// Summary file of a point's run.
std::string summary_path(const std::string& folder, const StudyPoint& point);
/// Log file of a point's run.
std::string log_path(const std::string& folder, const StudyPoint& point);

/// Summary text for a diverged run, which writes none itself.
std::string diverged_summary(const std::string& reason);

/// Parses a point's result from a summary; missing for a run that was cut off. Throws InputError naming `path` for text that is
/// not such a run's summary.
PointResult parse_point(const StudyPoint& point, const std::string& text, const std::string& path);
/// Reads a point's result from its folder; missing if there is no summary.
PointResult read_point(const StudyPoint& point, const std::string& folder);

/// The best result of a series and batch: the fewest steps to the target, then the least loss; if none reached it, the closest
/// by the target's metric. Null if none finished.
const PointResult* best_of(const std::vector<PointResult>& results, const std::string& optimizer, int64_t batch,
                           TargetMetric metric);

}  // namespace weft
