#include "weft/recipe/toml/toml_reader.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

std::string at(const std::string& path, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", path, source.begin.line, source.begin.column);
}

/// Describes a node for errors: "a string (\"six\")".
std::string what_was_found(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  std::string text = out.str();
  std::replace(text.begin(), text.end(), '\n', ' ');
  text = shortened(text, 80);
  switch (node.type()) {
    case toml::node_type::table:
      return fmt::format("a table ({})", text);
    case toml::node_type::array:
      return fmt::format("an array ({})", text);
    default:
      return text;
  }
}

/// Reads an integer as steps, and any other length from text.
bool assign_length(const FileKey& key, const toml::node& node, RunLength& length) {
  if (node.is_integer()) {
    length = {static_cast<double>(node.as_integer()->get()), LengthUnit::steps};
    return key.range.holds(length.amount);
  }
  const auto parsed = node.is_string() ? parse_run_length(node.as_string()->get()) : std::nullopt;
  if (!parsed || (parsed->unit == LengthUnit::seconds && !key.takes_time)) return false;
  length = *parsed;
  return length.unit != LengthUnit::steps || key.range.holds(length.amount);
}

/// Stores `node` at the key's target; returns false if its type or value is invalid.
bool assign(const FileKey& key, const toml::node& node) {
  const auto put = [&](auto* target) -> bool {
    using Target = std::remove_pointer_t<decltype(target)>;
    if constexpr (std::is_same_v<Target, std::string>) {
      const auto* value = node.as_string();
      if (value == nullptr) return false;
      *target = value->get();
      return key.choices.empty() || std::count(key.choices.begin(), key.choices.end(), *target) > 0;
    } else if constexpr (std::is_same_v<Target, bool> || std::is_same_v<Target, std::optional<bool>>) {
      if (!node.is_boolean()) return false;
      *target = node.as_boolean()->get();
      return true;
    } else if constexpr (std::is_same_v<Target, double> || std::is_same_v<Target, std::optional<double>>) {
      if (!node.is_number()) return false;  // true and 1 differ
      *target = *node.value<double>();
      return key.range.holds(*node.value<double>());
    } else if constexpr (std::is_same_v<Target, RunLength>) {
      return assign_length(key, node, *target);
    } else {
      if (!node.is_integer()) return false;
      const int64_t value = node.as_integer()->get();
      if (!key.range.holds(static_cast<double>(value))) return false;
      *target = static_cast<std::conditional_t<std::is_same_v<Target, uint64_t>, uint64_t, int64_t>>(value);
      return true;
    }
  };
  return std::visit(put, key.target);
}

const FileKey* find(const std::vector<FileKey>& keys, const std::string& dotted) {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.is(dotted); });
  return found == keys.end() ? nullptr : &*found;
}

/// The key that `section = "value"` sets; null if there is none.
const FileKey* find_short(const std::vector<FileKey>& keys, const std::string& section) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.is_short && key.section == section; });
  return found == keys.end() ? nullptr : &*found;
}

bool is_section(const std::vector<FileKey>& keys, const std::string& name) {
  return std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return key.section == name; });
}

void set(const FileKey& key, const toml::node& node, const std::string& where) {
  if (node.is_string() && node.as_string()->get().find('\0') != std::string::npos) {
    throw InputError(fmt::format("{}: {} contains a NUL, which would end it early; remove it, found {}", where, key.dotted(),
                                 what_was_found(node)));
  }
  if (!assign(key, node)) {
    const double found = node.is_integer() ? static_cast<double>(node.as_integer()->get()) : node.value<double>().value_or(0.0);
    throw InputError(
        fmt::format("{}: {} must be {}, found {}", where, key.dotted(), what_is_valid(key, found), what_was_found(node)));
  }
}

class Reader {
 public:
  Reader(const std::string& path, const std::vector<FileKey>& keys, const std::vector<RepeatedSection>& repeated)
      : path_(path), keys_(keys), repeated_(repeated) {}

  std::vector<std::string> read(const toml::table& document) const {
    std::vector<std::string> given;
    for (const auto& [key, node] : document) {
      const std::string section(key.str());
      if (const RepeatedSection* repeats = repeated(section)) {
        read_repeated(*repeats, node, at(path_, key.source()));
      } else if (is_section(keys_, section)) {
        read_section(section, keys_, node, at(path_, key.source()), given);
      } else {
        throw InputError(fmt::format("{}: {}", at(path_, key.source()), unknown_key(section, all_keys())));
      }
    }
    return given;
  }

 private:
  /// All keys, for errors.
  std::vector<FileKey> all_keys() const {
    std::vector<FileKey> all = keys_;
    for (const RepeatedSection& each : repeated_) all.insert(all.end(), each.known.begin(), each.known.end());
    return all;
  }

  const RepeatedSection* repeated(const std::string& name) const {
    const auto found = std::find_if(repeated_.begin(), repeated_.end(), [&](const auto& r) { return r.section == name; });
    return found == repeated_.end() ? nullptr : &*found;
  }

  void read_section(const std::string& section, const std::vector<FileKey>& keys, const toml::node& node,
                    const std::string& where, std::vector<std::string>& given) const {
    const toml::table* table = node.as_table();
    const FileKey* brief = node.is_string() ? find_short(keys, section) : nullptr;
    if (brief != nullptr) {
      set(*brief, node, at(path_, node.source()));
      given.push_back(brief->dotted());
      return;
    }
    if (table == nullptr) {
      throw InputError(fmt::format("{}: {} must be a table ({} = {{ ... }} or [{}]), found {}", where, section, section,
                                   section, what_was_found(node)));
    }
    for (const auto& [key, value] : *table) {
      const std::string dotted = section + "." + std::string(key.str());
      if (const RepeatedSection* repeats = repeated(dotted)) {
        read_repeated(*repeats, value, at(path_, key.source()));
        continue;
      }
      const FileKey* known = find(keys, dotted);
      if (known == nullptr) throw InputError(fmt::format("{}: {}", at(path_, key.source()), unknown_key(dotted, all_keys())));
      set(*known, value, at(path_, value.source()));
      given.push_back(dotted);
    }
  }

  void read_repeated(const RepeatedSection& repeats, const toml::node& node, const std::string& where) const {
    const toml::array* array = node.as_array();
    if (array == nullptr || !array->is_homogeneous<toml::table>()) {
      throw InputError(fmt::format("{}: {} is a list: write [[{}]] above each, found {}", where, repeats.section,
                                   repeats.section, what_was_found(node)));
    }
    for (const toml::node& each : *array) {
      std::vector<std::string> given;
      const std::vector<FileKey> keys = repeats.next();
      read_section(repeats.section, keys, each, where, given);
      check_required(at(path_, each.source()), keys, given);
    }
  }

  const std::string& path_;
  const std::vector<FileKey>& keys_;
  const std::vector<RepeatedSection>& repeated_;
};

constexpr size_t kMostParts = 256;  ///< of a dotted key, as toml++ allows for nested values

/// Finds the end of the string that starts at `at`; a newline ends an unclosed string.
size_t end_of_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  if (text.substr(at, 3) == three) {
    const size_t end = text.find(three, at + 3);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  for (++at; at < text.size() && text[at] != quote && text[at] != '\n'; ++at) {
    if (quote == '"' && text[at] == '\\') ++at;
  }
  return at;
}

/// Returns true if a key has too many parts: toml++ recurses once per part and could overflow the stack.
bool has_deep_key(std::string_view text) {
  size_t dots = 0;
  for (size_t i = 0; i < text.size() && dots < kMostParts; ++i) {
    if (text[i] == '#') i = std::min(text.find('\n', i), text.size() - 1);
    if (text[i] == '"' || text[i] == '\'') i = end_of_string(text, i);
    if (i >= text.size()) break;
    if (text[i] == '.') ++dots;
    if (std::string_view("\n=,[]{}").find(text[i]) != std::string_view::npos) dots = 0;
  }
  return dots >= kMostParts;
}

/// Parses the text as TOML; invalid TOML counts as a string, as does any unquoted text where a string is wanted.
toml::table override_value(const std::string& text, bool wants_string) {
  const bool quoted = !text.empty() && (text[0] == '"' || text[0] == '\'');
  if ((quoted || !wants_string) && !has_deep_key(text)) {
    try {
      toml::table table = toml::parse("value = " + text);
      if (table.size() == 1) return table;
    } catch (const toml::parse_error&) {
    }
  }
  return toml::table{{"value", text}};
}

toml::table parse_toml(const std::string& text, const std::string& path) {
  if (has_deep_key(text)) {
    throw InputError(
        fmt::format("{}: it has a dotted key of more than {} parts; the longest valid key has 2", path, kMostParts));
  }
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}: {}", at(path, error.source()), error.description()));
  }
}

/// Turns data.mix.3.weight into "entry 3 of data.mix"; empty for a key outside a list.
std::string missing_entry(const std::string& dotted) {
  for (size_t dot = dotted.find('.'); dot != std::string::npos; dot = dotted.find('.', dot + 1)) {
    const size_t end = std::min(dotted.find('.', dot + 1), dotted.size());
    const std::string part = dotted.substr(dot + 1, end - dot - 1);
    if (!part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos) {
      return fmt::format("entry {} of {}", part, shortened(dotted.substr(0, dot)));
    }
  }
  return {};
}

std::string why_not_overridden(const std::string& dotted, bool is_list, const std::vector<FileKey>& keys) {
  const std::string entry = missing_entry(dotted);
  if (!entry.empty()) return fmt::format("the recipe has no {}; add it to its file", entry);
  if (!is_list) return unknown_key(dotted, keys);
  return fmt::format("a list is set in the recipe's file; --set changes keys of its entries, as {}.1.KEY", shortened(dotted));
}

}  // namespace

std::vector<std::string> read_keys(const std::string& text, const std::string& path, const std::vector<FileKey>& keys,
                                   const std::vector<RepeatedSection>& repeated) {
  return Reader(path, keys, repeated).read(parse_toml(text, path));
}

std::string read_override(const std::string& text, const std::vector<FileKey>& keys) {
  const std::string where = "--set " + shortened(text);
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(fmt::format("{}: write it as section.key=value, like --set optimizer.lr=0.001", where));
  }
  const std::string dotted = text.substr(0, equals);
  const FileKey* key = find(keys, dotted);
  if (key == nullptr) key = find_short(keys, dotted);
  if (key == nullptr) {
    const bool is_list = text.substr(equals + 1).starts_with('[');
    throw InputError(fmt::format("{}: {}", where, why_not_overridden(dotted, is_list, keys)));
  }
  const toml::table value = override_value(text.substr(equals + 1), std::holds_alternative<std::string*>(key->target));
  set(*key, *value.get("value"), where);
  return key->dotted();
}

void check_required(const std::string& path, const std::vector<FileKey>& keys, const std::vector<std::string>& given) {
  for (const FileKey& key : keys) {
    if (key.required && std::count(given.begin(), given.end(), key.dotted()) == 0) {
      throw InputError(fmt::format("{}: {} is missing ({}): {}", path, key.dotted(), key.meaning, what_is_valid(key)));
    }
  }
}

}  // namespace weft
