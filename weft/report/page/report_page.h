// report_page: runs as one HTML file that needs nothing else, not even a network: weft report.
//
// Curves are thinned to some hundred points that keep the least, the mean and the greatest of what they stand for, so the file
// stays below 1 MB whatever the number of steps. Charts are drawn by a script in the page; a table is behind each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/report/history/run_history.h"
#include "weft/report/page/report_part.h"

namespace weft {

struct ReportOptions {
  double now_s = 0.0;                                              ///< since 1970, UTC
  std::vector<std::pair<std::string, std::string>> defaults = {};  ///< of recipe keys, which are then told apart
  std::vector<ReportPart> parts = {};                              ///< after the curves
  std::vector<std::string> studies = {};                           ///< names of others than runs, for the title
  std::string command = {};                                        ///< how to run it again
  size_t points = 400;                                             ///< of a curve, at most
};

/// The file's text.
std::string report_page(const std::vector<const RunHistory*>& runs, const ReportOptions& options);

/// The style sheet and the script of the page.
const char* report_style();
const char* report_script();

}  // namespace weft
