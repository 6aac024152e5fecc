#include "weft/train/recipe.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "weft/base/error.h"
#include "weft/train/recipe_keys.h"

namespace weft {

namespace {

std::string at(const std::string& path, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", path, source.begin.line, source.begin.column);
}

/// "a string (\"six\")", for errors.
std::string what_was_found(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  std::string text = out.str();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  switch (node.type()) {
    case toml::node_type::string:
    case toml::node_type::integer:
      return text;
    case toml::node_type::floating_point:
      return fmt::format("{} (not an integer)", text);
    case toml::node_type::table:
      return fmt::format("a table ({})", text);
    case toml::node_type::array:
      return fmt::format("an array ({})", text);
    default:
      return text;
  }
}

/// Puts `node` where `key` points; false when its type or value is not valid.
bool assign(const RecipeKey& key, const toml::node& node) {
  const auto put = [&](auto* target) -> bool {
    using Target = std::remove_pointer_t<decltype(target)>;
    if constexpr (std::is_same_v<Target, std::string>) {
      const auto* value = node.as_string();
      if (value == nullptr) return false;
      *target = value->get();
      return key.choices.empty() || std::count(key.choices.begin(), key.choices.end(), *target) > 0;
    } else if constexpr (std::is_same_v<Target, bool>) {
      if (!node.is_boolean()) return false;
      *target = node.as_boolean()->get();
      return true;
    } else if constexpr (std::is_same_v<Target, double>) {
      if (!node.is_number()) return false;  // 1 is a number too
      *target = *node.value<double>();
      return key.range.holds(*target);
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

const RecipeKey* find(const std::vector<RecipeKey>& keys, const std::string& dotted) {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.dotted() == dotted; });
  return found == keys.end() ? nullptr : &*found;
}

bool is_section(const std::vector<RecipeKey>& keys, const std::string& name) {
  return std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return key.section == name; });
}

void set(const RecipeKey& key, const toml::node& node, const std::string& where) {
  if (!assign(key, node)) {
    throw InputError(fmt::format("{}: {} must be {}, found {}", where, key.dotted(), what_is_valid(key), what_was_found(node)));
  }
}

std::vector<std::string> read_document(const toml::table& document, const std::string& path,
                                       const std::vector<RecipeKey>& keys) {
  std::vector<std::string> given;
  for (const auto& [section_key, section_node] : document) {
    const std::string section(section_key.str());
    if (!is_section(keys, section)) {
      throw InputError(fmt::format("{}: {}", at(path, section_key.source()), unknown_key(section, keys)));
    }
    const toml::table* table = section_node.as_table();
    if (table == nullptr) {
      throw InputError(fmt::format("{}: {} must be a table ({} = {{ ... }} or [{}]), found {}", at(path, section_key.source()),
                                   section, section, section, what_was_found(section_node)));
    }
    for (const auto& [key, node] : *table) {
      const std::string dotted = section + "." + std::string(key.str());
      const RecipeKey* known = find(keys, dotted);
      if (known == nullptr) throw InputError(fmt::format("{}: {}", at(path, key.source()), unknown_key(dotted, keys)));
      set(*known, node, at(path, node.source()));
      given.push_back(dotted);
    }
  }
  return given;
}

/// The text as TOML; text that is none counts as a string, as does all unquoted text where a string is wanted.
toml::table override_value(const std::string& text, bool wants_string) {
  const bool quoted = !text.empty() && (text[0] == '"' || text[0] == '\'');
  if (quoted || !wants_string) {
    try {
      toml::table table = toml::parse("value = " + text);
      if (table.size() == 1) return table;
    } catch (const toml::parse_error&) {
    }
  }
  return toml::table{{"value", text}};
}

std::string apply_override(const std::string& text, const std::vector<RecipeKey>& keys) {
  const std::string where = "--set " + text;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(fmt::format("{}: write it as section.key=value, like --set optimizer.lr=0.001", where));
  }
  const std::string dotted = text.substr(0, equals);
  const RecipeKey* key = find(keys, dotted);
  if (key == nullptr) throw InputError(fmt::format("{}: {}", where, unknown_key(dotted, keys)));
  const toml::table value = override_value(text.substr(equals + 1), std::holds_alternative<std::string*>(key->target));
  set(*key, *value.get("value"), where);
  return dotted;
}

toml::table parse_toml(const std::string& text, const std::string& path) {
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}: {}", at(path, error.source()), error.description()));
  }
}

}  // namespace

Recipe parse_recipe(const std::string& text, const std::string& path, const std::vector<std::string>& overrides) {
  Recipe recipe;
  recipe.path = path;
  const std::vector<RecipeKey> keys = recipe_keys(recipe);
  std::vector<std::string> given = read_document(parse_toml(text, path), path, keys);
  for (const std::string& override : overrides) given.push_back(apply_override(override, keys));
  for (const RecipeKey& key : keys) {
    if (key.required && std::count(given.begin(), given.end(), key.dotted()) == 0) {
      throw InputError(fmt::format("{}: {} is missing ({}): {}", path, key.dotted(), key.meaning, what_is_valid(key)));
    }
  }
  check_recipe(recipe);
  return recipe;
}

Recipe load_recipe(const std::string& path, const std::vector<std::string>& overrides) {
  std::ifstream in(path);
  if (!in || std::filesystem::is_directory(path)) {
    throw InputError(fmt::format("cannot read the recipe '{}': {}", path, std::strerror(in ? EISDIR : errno)));
  }
  std::ostringstream text;
  text << in.rdbuf();
  return parse_recipe(text.str(), path, overrides);
}

}  // namespace weft
