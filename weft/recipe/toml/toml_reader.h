// KeyFile: reads a TOML file by a table of its keys. Every error is one InputError line with file, line, key, the value found
// and the valid values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// A repeatable section, as [[section]], or nested in another as [[other.section]].
struct RepeatedSection {
  std::string section;
  std::vector<FileKey> known;                  ///< its keys, for errors
  std::function<std::vector<FileKey>()> next;  ///< adds one entry and returns its keys, with targets in that entry
};

/// Stores the values of a text at the targets of its keys; returns the dotted names of the keys it sets (without repeatable
/// sections). `path` names the text in errors. Throws InputError, also for a missing required key of a repeatable section.
std::vector<std::string> read_keys(const std::string& text, const std::string& path, const std::vector<FileKey>& keys,
                                   const std::vector<RepeatedSection>& repeated = {});

/// Stores the value of "section.key=value", in TOML (a bare word counts as a string), at the key's target. Returns the dotted
/// name.
std::string read_override(const std::string& text, const std::vector<FileKey>& keys);

/// Throws InputError for the first missing required key.
void check_required(const std::string& path, const std::vector<FileKey>& keys, const std::vector<std::string>& given);

}  // namespace weft
