// The keys of a TOML file, as a table: name, target, valid values, meaning. The reader and its errors use it; no other code
// knows the keys.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/recipe/run_length.h"

namespace weft {

struct KeyRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool open_min = false;  ///< min itself is invalid
  bool open_max = false;
  bool or_inf = false;             ///< infinity is valid in addition to the range
  bool holds(double value) const;  ///< false for NaN, and for infinity unless it is valid
};

using KeyTarget = std::variant<int64_t*, uint64_t*, std::optional<int64_t>*, double*, std::optional<double>*, bool*,
                               std::optional<bool>*, std::string*, RunLength*>;

struct FileKey {
  std::string section, name;
  KeyTarget target;
  const char* meaning = "";
  KeyRange range = {};
  std::vector<std::string> choices = {};
  bool required = false;
  bool takes_time = false;  ///< a length, which may also be a time
  bool is_short = false;    ///< `section = "value"` sets this key
  std::string dotted() const { return section + "." + name; }
  /// Returns true if `text` equals dotted().
  bool is(std::string_view text) const {
    return text.size() == section.size() + 1 + name.size() && text.starts_with(section) && text[section.size()] == '.' &&
           text.ends_with(name);
  }
};

/// Describes valid values in words: "an integer of at least 1", "one of \"gpt\", \"cnn\"", ... A very large maximum is shown
/// only if `found` exceeds it.
std::string what_is_valid(const FileKey& key, double found = 0.0);

/// The error for an unknown key: "unknown key 'model.layer'; did you mean 'model.layers'?".
std::string unknown_key(const std::string& dotted, const std::vector<FileKey>& keys);

}  // namespace weft
