// toml_edit: changes single values in the text of a TOML file. All else stays as it was written: comments, order, blanks.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft {

/// A change of a key.
struct TomlEdit {
  std::string key;                   ///< "layout.tp"; in a repeated section with its number: "data.mix.2.weight"
  std::optional<std::string> value;  ///< the new value, as TOML; empty: the key is removed
};

/// Returns `text` with the edits, in their order. A new key goes behind the others of its section; a new section to the end of
/// the file. A section that is one word (layout = "auto") becomes a table. `path` names the text in errors. Throws InputError
/// for text that is no TOML, and for a key that cannot be placed in it.
std::string edited_toml(const std::string& text, const std::string& path, const std::vector<TomlEdit>& edits);

}  // namespace weft
