#include "weft/data/passed_over.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace weft {

namespace {

constexpr size_t kMostOfAReason = 20;  // names kept per reason

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
  kind.first.insert(std::move(name));
  if (kind.first.size() > kMostOfAReason) kind.first.erase(std::prev(kind.first.end()));
}

DataNotes PassedOver::notes() const {
  DataNotes all;
  for (const auto& [reason, kind] : kinds_) {
    for (const std::string& name : kind.first) all.emplace_back(fmt::format("{} ({})", name, reason));
    const int64_t more = kind.count - static_cast<int64_t>(kind.first.size());
    if (more > 0) all.emplace_back(fmt::format("{} more, after {} ({})", more, *kind.first.rbegin(), reason), more);
  }
  return all;
}

}  // namespace weft
