#include "weft/program/draw/runs_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft {

std::string runs_text(const std::vector<int>& numbers, size_t most) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int first = numbers[i];
    while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) ++i;
    if (runs.size() == most) {
      runs.emplace_back("...");
      break;
    }
    runs.push_back(first == numbers[i] ? fmt::to_string(first) : fmt::format("{}-{}", first, numbers[i]));
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

}  // namespace weft
