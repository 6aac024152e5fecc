// What data.skip_bad passed over, as reports tell it: how much, and the first few names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// What was passed over, by name, and how many have no name of their own.
struct SkippedData {
  std::vector<std::string> names = {};
  int64_t more = 0;
};

/// The first few of the names, each without what a terminal would mind.
std::vector<std::string> first_skipped(const std::vector<std::string>& names);

/// "5 that are bad: train/ant/a.jpg; train/ant/c.jpg; train/bee/x.jpg; and 2 more", `more` of them without a name of their own.
std::string skipped_text(const std::vector<std::string>& names, int64_t more);

}  // namespace weft
