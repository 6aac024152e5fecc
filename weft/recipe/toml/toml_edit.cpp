#include "weft/recipe/toml/toml_edit.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

/// Position of a line and column, which count from 1 and in characters, in bytes from the start of the text.
size_t offset_of(std::string_view text, toml::source_position position) {
  size_t at = 0;
  for (uint32_t line = 1; line < position.line && at < text.size(); ++line)
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  const auto continues = [&text](size_t byte) { return byte < text.size() && (text[byte] & 0xC0) == 0x80; };  // UTF-8
  for (uint32_t column = 1; column < position.column && at < text.size(); ++column) {
    do ++at;
    while (continues(at));
  }
  return at;
}

size_t end_of_line(std::string_view text, size_t at) { return std::min(text.find('\n', at), text.size()); }

/// A place in the text, from `begin` to before `end`.
struct Place {
  size_t begin = 0, end = 0;
};

Place place_of(std::string_view text, const toml::source_region& source) {
  return {offset_of(text, source.begin), offset_of(text, source.end)};
}

/// A key and its value in a table.
struct Entry {
  Place key, value;
};

/// True if the node has a header, [section] or [[section]], or only its parts have.
bool has_header(std::string_view text, const toml::node& node) {
  if (const toml::table* table = node.as_table())
    return !table->is_inline() && text[place_of(text, table->source()).begin] == '[';
  const toml::array* array = node.as_array();
  return array != nullptr && array->is_array_of_tables() && has_header(text, *array->get(0));
}

/// Entries of a table that are written in its own place, in the order of the text: not its sub-tables.
std::vector<Entry> own_entries(std::string_view text, const toml::table& table) {
  std::vector<Entry> entries;
  for (const auto& [key, node] : table) {
    if (!has_header(text, node)) entries.push_back({place_of(text, key.source()), place_of(text, node.source())});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.key.begin < b.key.begin; });
  return entries;
}

/// "data.mix.2" and "weight".
std::pair<std::string, std::string> split_key(const std::string& dotted) {
  const size_t dot = dotted.rfind('.');
  return {dotted.substr(0, dot), dotted.substr(dot + 1)};
}

/// The node of a section, of which a number names the entry of a list; null if there is none.
toml::node* find_section(toml::table& document, const std::string& section) {
  toml::node* node = &document;
  for (size_t begin = 0; node != nullptr && begin <= section.size();) {
    const size_t end = std::min(section.find('.', begin), section.size());
    const std::string part = section.substr(begin, end - begin);
    if (toml::array* list = node->as_array()) {
      const size_t index = parse_number<size_t>(part).value_or(0);
      node = index > 0 ? list->get(index - 1) : nullptr;
    } else {
      node = node->is_table() ? node->as_table()->get(part) : nullptr;
    }
    begin = end + 1;
  }
  return node;
}

/// An edit of a text that is already parsed.
class Editor {
 public:
  Editor(const std::string& text, toml::table& document, const TomlEdit& edit) : text_(text), document_(document), edit_(edit) {
    std::tie(section_, name_) = split_key(edit.key);
  }

  std::string edited() const {
    toml::node* section = find_section(document_, section_);
    if (section == nullptr) return edit_.value ? with_section() : text_;
    const toml::table* table = section->as_table();
    if (table == nullptr && !edit_.value) return text_;
    if (table == nullptr) return with(place_of(text_, section->source()), fmt::format("{{ {} = {} }}", name_, *edit_.value));
    const toml::node* node = table->get(name_);
    if (node == nullptr) return edit_.value ? with_key(*table) : text_;
    return edit_.value ? with(place_of(text_, node->source()), *edit_.value) : without_key(*table);
  }

 private:
  std::string with(const Place& place, const std::string& words) const {
    return text_.substr(0, place.begin) + words + text_.substr(place.end);
  }

  /// Adds the key as a line of its own behind that of `at`.
  std::string with_line(size_t at, const std::string& key) const {
    const size_t end = end_of_line(text_, at);
    return with({end, end}, fmt::format("\n{} = {}", key, *edit_.value));
  }

  std::string with_key(const toml::table& table) const {
    const Place place = place_of(text_, table.source());
    const std::vector<Entry> entries = own_entries(text_, table);
    if (table.is_inline()) {
      if (entries.empty()) return with(place, fmt::format("{{ {} = {} }}", name_, *edit_.value));
      const size_t end = entries.back().value.end;
      return with({end, end}, fmt::format(", {} = {}", name_, *edit_.value));
    }
    const bool is_numbered = section_.find_last_not_of("0123456789") != section_.size() - 1;
    const bool is_named = text_[place.begin] == '[' && (text_[place.begin + 1] != '[' || is_numbered);
    if (is_named) return with_line(entries.empty() ? place.begin : entries.back().value.end, name_);
    return entries.empty() ? with_section() : with_line(entries.back().value.end, edit_.key);  // layout.tp = 2
  }

  std::string without_key(const toml::table& table) const {
    const std::vector<Entry> entries = own_entries(text_, table);
    const Place value = place_of(text_, table.get(name_)->source());
    const auto own = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.value.begin == value.begin; });
    if (!table.is_inline()) {
      const size_t line = text_.rfind('\n', own->key.begin);
      const size_t begin = line == std::string::npos ? 0 : line + 1;
      return with({begin, std::min(end_of_line(text_, own->value.end) + 1, text_.size())}, "");
    }
    if (own + 1 != entries.end()) return with({own->key.begin, (own + 1)->key.begin}, "");
    return with({own == entries.begin() ? own->key.begin : (own - 1)->value.end, own->value.end}, "");
  }

  /// Adds the section at the end, in the form of the others. Without a header anywhere all are lines `section = { ... }`.
  std::string with_section() const {
    const bool has_headers =
        std::any_of(document_.begin(), document_.end(), [this](const auto& entry) { return has_header(text_, entry.second); });
    const std::string start = text_.empty() || text_.back() == '\n' ? text_ : text_ + "\n";
    return has_headers ? fmt::format("{}\n[{}]\n{} = {}\n", start, section_, name_, *edit_.value)
                       : fmt::format("{}{} = {{ {} = {} }}\n", start, section_, name_, *edit_.value);
  }

  const std::string& text_;
  toml::table& document_;
  const TomlEdit& edit_;
  std::string section_, name_;
};

toml::table parsed_toml(const std::string& text, const std::string& path) {
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw InputError(
        fmt::format("{}:{}:{}: {}", path, error.source().begin.line, error.source().begin.column, error.description()));
  }
}

/// Returns what the edited text must read as.
toml::table expected(toml::table document, const TomlEdit& edit) {
  const auto [section, name] = split_key(edit.key);
  toml::node* node = find_section(document, section);
  const bool is_table = node != nullptr && node->is_table();
  if (!is_table && !edit.value) return document;
  if (!is_table) {
    document.insert_or_assign(section, toml::table{});
    node = document.get(section);
  }
  if (!edit.value) {
    node->as_table()->erase(name);
  } else {
    node->as_table()->insert_or_assign(name, *toml::parse("value = " + *edit.value).get("value"));
  }
  return document;
}

}  // namespace

std::string edited_toml(const std::string& text, const std::string& path, const std::vector<TomlEdit>& edits) {
  std::string result = text;
  for (const TomlEdit& edit : edits) {
    toml::table document = parsed_toml(result, path);
    std::string changed = Editor(result, document, edit).edited();
    bool is_right = false;
    try {
      is_right = toml::parse(changed) == expected(document, edit);
    } catch (const toml::parse_error&) {
      is_right = false;  // reported below, by the key
    }
    if (!is_right) {
      throw InputError(fmt::format("{}: cannot change {} in this file; {} it by hand", path, shortened(edit.key),
                                   edit.value ? fmt::format("set {} for", shortened(*edit.value)) : "remove"));
    }
    result = std::move(changed);
  }
  return result;
}

}  // namespace weft
