// watch_page: runs as a page of text, for a terminal or a log: weft watch.
#pragma once

#include <string>
#include <vector>

#include "weft/report/history/run_history.h"

namespace weft {

/// What the curves are drawn over.
enum class WatchAxis { steps, samples, tokens, hours };

struct WatchOptions {
  int width = 80, height = 24;  ///< in characters; smaller ones count as 40 by 12
  WatchAxis axis = WatchAxis::steps;
  std::string value = "loss";  ///< of the large chart
  bool colors = false;
  double now_s = 0.0;        ///< since 1970, UTC
  bool whole_lines = false;  ///< long lines are not cut: for a log
};

/// Lines of at most `width` columns, without newlines, at most `height`. One run with all that is known of it, or several over
/// each other.
std::vector<std::string> watch_page(const std::vector<const RunHistory*>& runs, const WatchOptions& options);

}  // namespace weft
