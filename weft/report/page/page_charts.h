// page_charts: which charts a report has.
#pragma once

#include <string>
#include <vector>

#include "weft/report/history/run_history.h"

namespace weft {

struct PageChart {
  std::string title;
  std::vector<std::string> names;  ///< of curves or SET/VALUE of evaluations
  bool large = false;
};

/// What the runs have, in order: charts without any curve are left out.
std::vector<PageChart> charts_of(const std::vector<const RunHistory*>& runs);

}  // namespace weft
