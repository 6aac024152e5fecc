// The keys of a TOML file, as a table: name, where the value goes, what is valid, what it means. Reader and errors go by it;
// nothing else knows which keys there are.
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
  bool open_min = false;  ///< min itself is not valid
  bool open_max = false;
  bool or_inf = false;             ///< infinity is valid beside the range
  bool holds(double value) const;  ///< false for a NaN, and for infinity but where it is valid
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
  bool takes_time = false;  ///< a length: in time too
  std::string dotted() const { return section + "." + name; }
  /// Whether that is dotted().
  bool is(std::string_view text) const {
    return text.size() == section.size() + 1 + name.size() && text.starts_with(section) && text[section.size()] == '.' &&
           text.ends_with(name);
  }
};

/// What a key takes, in words: "an integer of at least 1", "one of \"gpt\", \"cnn\"", ... A far largest value is told where
/// `found` is above it.
std::string what_is_valid(const FileKey& key, double found = 0.0);

/// The error for a name that no key of `keys` has: "unknown key 'model.layer'; did you mean 'model.layers'?".
std::string unknown_key(const std::string& dotted, const std::vector<FileKey>& keys);

}  // namespace weft
