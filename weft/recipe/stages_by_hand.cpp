#include "weft/recipe/stages_by_hand.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

/// Returns 0 for an invalid number.
int64_t number_of(const std::string& text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size()), end = text.find_last_not_of(' ') + 1;
  return parse_number<int64_t>(std::string_view(text).substr(begin, std::max(begin, end) - begin)).value_or(0);
}

}  // namespace

std::vector<int64_t> stages_by_hand(const std::string& text) {
  std::vector<int64_t> counts;
  if (text == "auto" || text == "even") return counts;
  std::stringstream parts(text + ",");  // keeps an empty last part
  for (std::string part; std::getline(parts, part, ',');) {
    counts.push_back(number_of(part));
    if (counts.back() >= 1 && counts.back() <= std::numeric_limits<int>::max()) continue;
    throw InputError(
        fmt::format("layout.stages = \"{}\"; it must be \"auto\", \"even\" or the number of blocks of each "
                    "stage, as in \"3,2,3\"",
                    shortened(text)));
  }
  return counts;
}

void check_stages_by_hand(const std::string& text, int blocks) {
  const std::vector<int64_t> counts = stages_by_hand(text);
  int64_t all = 0;
  for (const int64_t count : counts) all += count;
  if (counts.empty() || all == blocks) return;
  throw InputError(
      fmt::format("layout.stages = \"{}\" has {} blocks in all, but the model has {}", shortened(text), all, blocks));
}

}  // namespace weft
