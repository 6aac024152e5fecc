// summary: a finished run as JSON, for scripts; written by --summary.
#pragma once

#include <string>

#include "weft/report/report.h"
#include "weft/report/skipped_data.h"

namespace weft {

/// The report as one indented JSON object with a final newline. Non-finite numbers become null.
std::string summary_json(const FinalReport& report);
/// The same for an evaluation, with the keys of a training's summary.
std::string summary_json(const SavedEvaluation& evaluation, const SkippedData& skipped);

}  // namespace weft
