// StudyResult: what came of a study's points, read from the summaries that their runs wrote (report/summary.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/recipe/run_target.h"
#include "weft/study/study_grid.h"

namespace weft {

/// What became of a point.
enum class PointOutcome : uint8_t {
  reached,      ///< the target
  not_reached,  ///< within its steps
  diverged,     ///< its loss is no number any more
  failed,       ///< its run ended with an error
  missing,      ///< it was not run, or cut off
};
/// The words for it.
inline constexpr EnumNames<PointOutcome, 5> kPointOutcomes("reached", "not reached", "diverged", "failed", "not run");

/// What came of a point.
struct PointResult {
  StudyPoint point = {};                         ///< which
  PointOutcome outcome = PointOutcome::missing;  ///< what became of it
  int64_t steps = 0;                             ///< done; where it reached the target: until then
  std::optional<double> loss = {};               ///< of the last evaluation; none: no number, or not run
  std::optional<double> accuracy = {};           ///< the same
  double learning_rate = 0.0;                    ///< at its peak, scaled as the recipe says
  double seconds = 0.0;                          ///< that it trained for
  std::string reason = {};                       ///< why it failed or diverged

  int64_t samples() const { return steps * point.batch; }  ///< trained on
  /// The target was reached after so many steps or later: the evaluation before the one that told did not reach it.
  int64_t least_steps() const;
};

/// The file that a point's run writes its summary to.
std::string summary_path(const std::string& folder, const StudyPoint& point);
/// The file that holds what it printed.
std::string log_path(const std::string& folder, const StudyPoint& point);

/// What stands in that file for a run that diverged, and so wrote none.
std::string diverged_summary(const std::string& reason);

/// What such a file's text says of a point; missing for a run that was cut off. Throws InputError, naming `path`, for a text
/// that no such run wrote.
PointResult parse_point(const StudyPoint& point, const std::string& text, const std::string& path);
/// What is in the folder of a point; missing where there is no summary.
PointResult read_point(const StudyPoint& point, const std::string& folder);

/// The best of those of a series and batch: the one that reached the target after the fewest steps, of several the one with the
/// least loss; where none did, the one that came nearest by what the target is about. Null where none came to an end.
const PointResult* best_of(const std::vector<PointResult>& results, const std::string& optimizer, int64_t batch,
                           TargetMetric metric);

}  // namespace weft
