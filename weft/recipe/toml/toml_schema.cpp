#include "weft/recipe/toml/toml_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "weft/base/nearest.h"
#include "weft/base/printable.h"
#include "weft/recipe/toml/key_synonyms.h"

namespace weft {

namespace {

constexpr double kFar = 1e9;  // a maximum this large is shown only when exceeded

/// Formats 1000000 rather than 1e+06, and 1e+18 as it is.
std::string plain(double bound) {
  return bound == std::floor(bound) && bound < 1e15 ? fmt::format("{:.0f}", bound) : fmt::format("{:g}", bound);
}

std::string range_text(const KeyRange& range, double found) {
  std::vector<std::string> parts;
  if (range.min > -std::numeric_limits<double>::infinity()) {
    parts.push_back(fmt::format("{} {}", range.open_min ? "above" : "of at least", plain(range.min)));
  }
  if (range.max < kFar || found > range.max)
    parts.push_back(fmt::format("{} {}", range.open_max ? "below" : "at most", plain(range.max)));
  return parts.empty() ? "" : fmt::format(" {}{}", fmt::join(parts, " and "), range.or_inf ? ", or inf" : "");
}

}  // namespace

bool KeyRange::holds(double value) const {
  if (or_inf && value == std::numeric_limits<double>::infinity()) return true;
  return std::isfinite(value) && (open_min ? value > min : value >= min) && (open_max ? value < max : value <= max);
}

std::string what_is_valid(const FileKey& key, double found) {
  if (!key.choices.empty()) return fmt::format("one of \"{}\"", fmt::join(key.choices, "\", \""));
  if (std::holds_alternative<bool*>(key.target) || std::holds_alternative<std::optional<bool>*>(key.target))
    return "true or false";
  if (std::holds_alternative<std::string*>(key.target)) return "a string";
  if (std::holds_alternative<RunLength*>(key.target)) {
    return fmt::format("a number of steps, or a length: \"2 epochs\", \"1e6 samples\", \"3e9 tokens\"{}",
                       key.takes_time ? ", \"10 min\"" : "");
  }
  const bool number = std::holds_alternative<double*>(key.target) || std::holds_alternative<std::optional<double>*>(key.target);
  const char* kind = !number ? "an integer" : std::isfinite(found) || key.range.or_inf ? "a number" : "a finite number";
  return kind + range_text(key.range, found);
}

std::string unknown_key(const std::string& dotted, const std::vector<FileKey>& keys) {
  const size_t dot = dotted.find('.');
  const std::string section = dotted.substr(0, dot), name = dot == std::string::npos ? dotted : dotted.substr(dot + 1);
  std::vector<std::string> sections, all, in_section, elsewhere;
  for (const FileKey& key : keys) {
    if (sections.empty() || sections.back() != key.section) sections.push_back(key.section);
    all.push_back(key.dotted());
    if (key.section == section) in_section.push_back(key.dotted());
    if (key.name == name) elsewhere.push_back(key.dotted());
  }
  const std::string_view of_section = meant_by(dotted);
  const std::string synonym(of_section.empty() ? meant_by(name) : of_section);
  if (const auto known = std::find(all.begin(), all.end(), synonym);
      (elsewhere.empty() || !of_section.empty()) && known != all.end()) {
    return fmt::format("unknown key '{}'; weft's is '{}': {}", shortened(dotted), synonym, keys[known - all.begin()].meaning);
  }
  if (elsewhere.empty() && std::find(sections.begin(), sections.end(), synonym) != sections.end()) {
    return fmt::format("unknown key '{}'; weft's is '{}'", shortened(dotted), synonym);
  }
  // A valid name in the wrong section is what was meant; for a typo, search the given section first.
  const int most = std::max<int>(2, static_cast<int>(name.size()) / 2);
  const std::string meant = !elsewhere.empty()         ? nearest(dotted, elsewhere)
                            : !in_section.empty()      ? nearest(dotted, in_section, most)
                            : dot == std::string::npos ? nearest(dotted, sections, most)
                                                       : nearest(dotted, all, most);
  if (!meant.empty()) return fmt::format("unknown key '{}'; did you mean '{}'?", shortened(dotted), meant);
  if (in_section.empty()) return fmt::format("unknown key '{}'; sections are {}", shortened(dotted), fmt::join(sections, ", "));
  return fmt::format("unknown key '{}'; keys are {}", shortened(dotted), fmt::join(in_section, ", "));
}

}  // namespace weft
