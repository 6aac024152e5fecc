// Data skipped by data.skip_bad, as reports show it: how much, and the first few names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Names of skipped data, and the number of unnamed ones.
struct SkippedData {
  std::vector<std::string> names = {};
  int64_t more = 0;
};

/// The first few names, made safe for a terminal.
std::vector<std::string> first_skipped(const std::vector<std::string>& names);

/// Formats "5 that are bad: train/ant/a.jpg; train/ant/c.jpg; train/bee/x.jpg; and 2 more"; `more` are unnamed.
std::string skipped_text(const std::vector<std::string>& names, int64_t more);

}  // namespace weft
