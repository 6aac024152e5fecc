#include "weft/report/records/record_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "weft/base/parse_number.h"

namespace weft {
namespace {

constexpr std::string_view kRecords = "records-";

std::string_view stem_of(std::string_view file) { return file.substr(0, file.rfind('.')); }
std::string_view end_of(std::string_view file) { return file.substr(stem_of(file).size()); }

/// N of "begin N end".
std::optional<int> number_in(std::string_view name, std::string_view begin, std::string_view end) {
  if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) return std::nullopt;
  return parse_number<int>(name.substr(begin.size(), name.size() - begin.size() - end.size()));
}

}  // namespace

std::string records_name(int number) { return fmt::format("{}{}", kRecords, number); }

int newest_records(const std::vector<std::string>& names) {
  int newest = 0;
  for (const std::string& name : names) newest = std::max(newest, number_in(name, kRecords, "").value_or(0));
  return newest;
}

std::string part_name(std::string_view file, int number) {
  return fmt::format("{}-{:06}{}", stem_of(file), number, end_of(file));
}

std::vector<int> parts_among(const std::vector<std::string>& names, std::string_view file) {
  const std::string begin = fmt::format("{}-", stem_of(file));
  std::vector<int> numbers;
  for (const std::string& name : names) {
    if (const auto number = number_in(name, begin, end_of(file)); number && *number > 0) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

size_t lines_within(std::string_view text, size_t room) {
  if (text.size() <= room) return text.size();
  const size_t newline = room == 0 ? std::string_view::npos : text.rfind('\n', room - 1);
  return newline == std::string_view::npos ? 0 : newline + 1;
}

}  // namespace weft
