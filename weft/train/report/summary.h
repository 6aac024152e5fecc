// summary: a finished run as JSON, for scripts; what --summary writes.
#pragma once

#include <string>

#include "weft/train/report/report.h"

namespace weft {

/// The report as one JSON object, indented, newline at its end. Numbers that are not finite are written as null.
std::string summary_json(const FinalReport& report);

}  // namespace weft
