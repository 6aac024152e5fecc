#include "weft/data/passed_over.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft {

namespace {

constexpr size_t kMostOfAReason = 20;  // of a reason

}  // namespace

bool is_hidden_name(std::string_view name) {
  return (name.starts_with('.') && name != "." && name != "..") || name == "__MACOSX";
}

bool is_hidden_path(std::string_view path) {
  for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = path.find('/', begin);
    if (is_hidden_name(path.substr(begin, end - begin))) return true;
  }
  return false;
}

void PassedOver::add(const std::string& reason, std::string name) {
  Kind& kind = kinds_[reason];
  ++kind.count;
  if (kind.first.size() < kMostOfAReason) kind.first.push_back(std::move(name));
}

std::vector<std::string> PassedOver::names() const {
  std::vector<std::string> all;
  for (const auto& [reason, kind] : kinds_) {
    if (kind.count > static_cast<int64_t>(kMostOfAReason)) {
      all.push_back(fmt::format("{} such as {} and {} ({})", kind.count, kind.first[0], kind.first[1], reason));
      continue;
    }
    for (const std::string& name : kind.first) all.push_back(fmt::format("{} ({})", name, reason));
  }
  return all;
}

}  // namespace weft
