#include "weft/launch/slurm/slurm_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
constexpr int64_t kMostOfOne = 10'000'000;  // upper limit for days, hours or minutes

/// Numbers separated by colons; nothing if a part is malformed.
std::vector<int64_t> numbers_with_colons(std::string_view text) {
  std::vector<int64_t> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    const auto number = parse_number<int64_t>(text.substr(begin, end - begin));
    if (!number || *number < 0 || *number > kMostOfOne) return {};
    numbers.push_back(*number);
    begin = end + 1;
  }
  return numbers;
}

}  // namespace

std::optional<int64_t> slurm_seconds(const std::string& text) {
  if (text == "UNLIMITED" || text == "INFINITE") return std::nullopt;
  const size_t dash = text.find('-');
  const bool has_days = dash != std::string::npos;
  std::vector<int64_t> units = {kMinute, 1};  // "90:30" is minutes and seconds, "2-12:30" hours and minutes
  std::vector<int64_t> numbers = numbers_with_colons(std::string_view(text).substr(has_days ? dash + 1 : 0));
  if (has_days || numbers.size() == 3) units = {kHour, kMinute, 1};
  const auto days = has_days ? parse_number<int64_t>(std::string_view(text).substr(0, dash)) : 0;
  int64_t seconds = 0;
  if (days && *days >= 0 && *days <= kMostOfOne && numbers.size() <= units.size()) {
    seconds = *days * kDay;
    for (size_t i = 0; i < numbers.size(); ++i) seconds += numbers[i] * units[i];
  }
  if (numbers.empty() || seconds <= 0) {
    throw InputError(
        fmt::format("--time {}: not a time; expected minutes, 4:00:00, 2-12:00:00 (days-hours) or UNLIMITED", shortened(text)));
  }
  return seconds;
}

}  // namespace weft
