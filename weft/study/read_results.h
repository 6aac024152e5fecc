// Reads back what weft study and weft scale wrote: study.json and scale.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/report/history/run_history.h"
#include "weft/study/scale_report.h"
#include "weft/study/study_report.h"

namespace weft {

inline constexpr const char* kStudyFile = "study.json";  ///< in the folder of weft study --out
inline constexpr const char* kScaleFile = "scale.json";  ///< of weft scale --out

/// Reads study_json(). Throws InputError naming `path` for another text.
Study parse_study(const std::string& text, const std::string& path);
/// Reads scale_json(), likewise.
ScaleStudy parse_scale(const std::string& text, const std::string& path);

/// Runs as measurements of scaling, by the median step: their recipes differ in ranks alone, and in what follows from these
/// (sizes of axes, threads, and a batch that grows with the ranks). Empty: they differ in something else, or not in their
/// ranks.
std::optional<ScaleStudy> scaling_of(const std::vector<const RunHistory*>& runs);

}  // namespace weft
