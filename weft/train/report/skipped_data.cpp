#include "weft/train/report/skipped_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "weft/base/printable.h"

namespace weft {

std::vector<std::string> first_skipped(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;
  std::vector<std::string> first;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) first.push_back(printable(names[i]));
  return first;
}

std::string skipped_text(const std::vector<std::string>& names) {
  const std::vector<std::string> first = first_skipped(names);
  const std::string more = names.size() > first.size() ? fmt::format("; and {} more", names.size() - first.size()) : "";
  return fmt::format("{} that {} bad: {}{}", names.size(), names.size() == 1 ? "is" : "are", fmt::join(first, "; "), more);
}

}  // namespace weft
