// Parts of weft report about scaling and studies: charts, each with its table.
#pragma once

#include <string>
#include <vector>

#include "weft/report/page/report_part.h"
#include "weft/study/scale_report.h"
#include "weft/study/study_report.h"

namespace weft {

/// Throughput and efficiency over ranks. `note`: what was measured.
std::vector<ReportPart> scale_parts(const ScaleStudy& study, const std::string& note);

/// Steps to the target over batches.
ReportPart study_part(const Study& study);

}  // namespace weft
