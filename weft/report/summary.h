// summary: a finished run as JSON, for scripts; what --summary writes.
#pragma once

#include <string>

#include "weft/report/report.h"
#include "weft/report/skipped_data.h"

namespace weft {

/// The report as one JSON object, indented, newline at its end. Numbers that are not finite are written as null.
std::string summary_json(const FinalReport& report);
/// The same of an evaluation: its figures under the keys that the summary of a training has them under.
std::string summary_json(const SavedEvaluation& evaluation, const SkippedData& skipped);

}  // namespace weft
