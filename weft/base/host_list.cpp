#include "weft/base/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

constexpr size_t kMostHosts = size_t{1} << 18;  // more than any cluster has

/// Splits the text and reports errors.
class ListReader {
 public:
  ListReader(std::string_view name, std::string_view text, std::string_view form) : name_(name), text_(text), form_(form) {}

  [[noreturn]] void refuse(const std::string& why) const {
    throw InputError(fmt::format("{}=\"{}\": {}; expected a list like {}", name_, shortened(text_), why, form_));
  }
  void check_size(size_t entries) const {
    if (entries > kMostHosts) refuse(fmt::format("more than {} hosts", kMostHosts));
  }

  /// Splits at commas outside brackets.
  std::vector<std::string_view> entries() const {
    std::vector<std::string_view> found;
    size_t begin = 0;
    bool inside = false;
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '[') {
        if (inside) refuse("nested brackets");
        inside = true;
      } else if (text_[i] == ']') {
        if (!inside) refuse("a ']' without its '['");
        inside = false;
      } else if (text_[i] == ',' && !inside) {
        found.push_back(text_.substr(begin, i - begin));
        begin = i + 1;
      }
    }
    if (inside) refuse("a '[' without its ']'");
    found.push_back(text_.substr(begin));
    for (const std::string_view entry : found) {
      if (entry.empty()) refuse("an empty entry");
    }
    return found;
  }

 private:
  std::string_view name_, text_, form_;
};

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Expands "1-3,07" into its numbers, keeping leading zeros.
std::vector<std::string> numbers_of(const ListReader& list, std::string_view ranges) {
  std::vector<std::string> numbers;
  for (size_t begin = 0; begin <= ranges.size();) {
    const size_t end = std::min(ranges.find(',', begin), ranges.size());
    const std::string_view range = ranges.substr(begin, end - begin);
    const size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash), high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    if (!is_number(low) || !is_number(high)) list.refuse(fmt::format("'{}' is not a number or range", shortened(range)));
    const auto first = parse_number<uint64_t>(low), last = parse_number<uint64_t>(high);
    if (!first || !last) list.refuse(fmt::format("'{}' is too large", shortened(range)));
    if (*last < *first) list.refuse(fmt::format("'{}' runs backwards", shortened(range)));
    if (*last - *first >= kMostHosts) list.check_size(kMostHosts + 1);
    list.check_size(numbers.size() + (*last - *first) + 1);
    for (uint64_t i = 0; i <= *last - *first; ++i) numbers.push_back(fmt::format("{:0{}}", *first + i, low.size()));
    begin = end + 1;
  }
  return numbers;
}

void check_plain(const ListReader& list, std::string_view part) {
  for (const char c : part) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    if (!good) list.refuse(fmt::format("'{}' is not allowed in a host name", printable({&c, 1})));
  }
}

/// Hosts of one entry: each text or bracket is appended to all hosts so far.
std::vector<std::string> hosts_of(const ListReader& list, std::string_view entry) {
  std::vector<std::string> hosts = {""};
  while (!entry.empty()) {
    const size_t open = std::min(entry.find('['), entry.size());
    check_plain(list, entry.substr(0, open));
    for (std::string& host : hosts) host += entry.substr(0, open);
    if (open == entry.size()) break;
    const size_t close = entry.find(']', open);
    const std::vector<std::string> numbers = numbers_of(list, entry.substr(open + 1, close - open - 1));
    list.check_size(hosts.size() * numbers.size());
    std::vector<std::string> longer;
    longer.reserve(hosts.size() * numbers.size());
    for (const std::string& host : hosts) {
      for (const std::string& number : numbers) longer.push_back(host + number);
    }
    hosts = std::move(longer);
    entry.remove_prefix(close + 1);
  }
  return hosts;
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view name, std::string_view text) {
  const ListReader list(name, text, "n[1-4],gpu7");
  std::vector<std::string> hosts;
  for (const std::string_view entry : list.entries()) {
    const std::vector<std::string> more = hosts_of(list, entry);
    list.check_size(hosts.size() + more.size());
    hosts.insert(hosts.end(), more.begin(), more.end());
  }
  return hosts;
}

std::vector<int> expand_counts(std::string_view name, std::string_view text) {
  const ListReader list(name, text, "2(x3),1");
  std::vector<int> counts;
  for (const std::string_view entry : list.entries()) {
    const size_t open = std::min(entry.find("(x"), entry.size());
    const auto count = parse_number<int>(entry.substr(0, open));
    std::optional<int> times = 1;
    if (open < entry.size()) {
      const bool closed = entry.ends_with(')') && entry.size() > open + 3;
      times = closed ? parse_number<int>(entry.substr(open + 2, entry.size() - open - 3)) : std::nullopt;
    }
    if (!count || !times || *count < 1 || *times < 1) list.refuse(fmt::format("'{}' is not a count", shortened(entry)));
    list.check_size(counts.size() + static_cast<size_t>(*times));
    counts.insert(counts.end(), static_cast<size_t>(*times), *count);
  }
  return counts;
}

}  // namespace weft
