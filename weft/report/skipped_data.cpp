#include "weft/report/skipped_data.h"

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

std::string skipped_text(const std::vector<std::string>& names, int64_t more) {
  const std::vector<std::string> first = first_skipped(names);
  const auto count = static_cast<int64_t>(names.size()) + more, left = count - static_cast<int64_t>(first.size());
  return fmt::format("{} that {} bad: {}{}", count, count == 1 ? "is" : "are", fmt::join(first, "; "),
                     left > 0 ? fmt::format("; and {} more", left) : "");
}

}  // namespace weft
