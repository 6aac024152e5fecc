#include "weft/checkpoint/weights/weight_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "weft/base/file_error.h"
#include "weft/base/input_file.h"

namespace weft {
namespace {

using NamesJson = nlohmann::ordered_json;

constexpr int64_t kMostNamesBytes = int64_t{100} << 20;

/// Returns the text that '*' of `pattern` matches in `name`; nullopt if the pattern does not fit.
std::optional<std::string> match(const std::string& pattern, const std::string& name) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return pattern == name ? std::optional<std::string>("") : std::nullopt;
  const std::string head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (name.size() < head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail)) return std::nullopt;
  return name.substr(head.size(), name.size() - head.size() - tail.size());
}

}  // namespace

WeightNames WeightNames::from_file(const std::string& path) {
  WeightNames names;
  const std::string what = "the map of weights' names";
  const NamesJson json = NamesJson::parse(read_text_file(what, path, kMostNamesBytes), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw FileError(fmt::format("{}: {} is not a JSON object", path, what));
  for (const auto& [from, to] : json.items()) {
    const auto stars = [](const std::string& text) { return std::count(text.begin(), text.end(), '*'); };
    if (!to.is_string() || stars(from) > 1 || stars(from) != stars(to.get<std::string>())) {
      throw FileError(fmt::format("{}: \"{}\" must map to a name with as many '*', at most one", path, from));
    }
    names.rules_.emplace_back(from, to.get<std::string>());
  }
  return names;
}

std::string WeightNames::in_model(const std::string& name) const {
  for (const auto& [from, to] : rules_) {
    const auto text = match(from, name);
    if (!text) continue;
    const size_t star = to.find('*');
    return star == std::string::npos ? to : to.substr(0, star) + *text + to.substr(star + 1);
  }
  return name;
}

std::string without_wrappers(const std::string& name) {
  static constexpr std::string_view kAnywhere[] = {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."};
  std::string plain;
  for (size_t at = 0; at < name.size();) {
    const size_t dot = name.find('.', at);
    const std::string_view part = std::string_view(name).substr(at, dot == std::string::npos ? dot : dot + 1 - at);
    const bool wraps = std::find(std::begin(kAnywhere), std::end(kAnywhere), part) != std::end(kAnywhere);
    if (!wraps && !(plain.empty() && part == "module.")) plain += part;
    at += part.size();
  }
  return plain;
}

}  // namespace weft
