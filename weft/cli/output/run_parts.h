// run_parts: what a report says about one run beyond its records: its step and its memory, predicted and measured.
#pragma once

#include <vector>

#include "weft/cli/output/run_reader.h"
#include "weft/report/page/report_part.h"

namespace weft {

/// The step over time as predicted, and below it as a profile measured it (profile/timeline.json), if there is one; then memory
/// by category. What the run's records do not suffice for is a note.
std::vector<ReportPart> run_parts(const RunReader& reader);

}  // namespace weft
