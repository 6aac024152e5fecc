#include "weft/plan/search/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/units.h"

namespace weft {

void Refusals::add_illegal(const std::string& key, const std::string& text, const std::string& why, int64_t layouts) {
  illegal_groups_.try_emplace(key, LeftOut{.text = text, .why = why}).first->second.layouts += layouts;
  illegal_ += layouts;
}

void Refusals::add_over_memory(const std::string& text, int64_t bytes, int64_t layouts) {
  const auto [found, is_new] = memory_groups_.try_emplace(text, OverMemory{.least_bytes = bytes});
  found->second.least_bytes = std::min(found->second.least_bytes, bytes);
  found->second.layouts += layouts;
  over_memory_ += layouts;
}

std::vector<LeftOut> Refusals::groups() const {
  std::vector<std::pair<int64_t, LeftOut>> memory;
  for (const auto& [text, group] : memory_groups_) {
    const std::string why =
        fmt::format("over memory by {}{}", format_bytes(group.least_bytes), group.layouts > 1 ? " or more" : "");
    memory.push_back({group.least_bytes, {.text = text, .why = why, .layouts = group.layouts}});
  }
  std::stable_sort(memory.begin(), memory.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<LeftOut> illegal;
  illegal.reserve(illegal_groups_.size());
  for (const auto& [key, group] : illegal_groups_) illegal.push_back(group);
  std::stable_sort(illegal.begin(), illegal.end(), [](const LeftOut& a, const LeftOut& b) { return a.layouts > b.layouts; });
  std::vector<LeftOut> result;
  result.reserve(memory.size() + illegal.size());
  for (auto& [bytes, group] : memory) result.push_back(std::move(group));
  result.insert(result.end(), illegal.begin(), illegal.end());
  return result;
}

std::string closest_text(const std::vector<LeftOut>& groups) {
  return groups.empty() ? "" : fmt::format("{}: {}", groups.front().text, groups.front().why);
}

}  // namespace weft
