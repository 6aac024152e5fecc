// KeyFile: reading a TOML file by a table of its keys. Every error is one InputError line that names file, line, key, what was
// found and what is valid.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// A section that may come any number of times, as [[section]], or within another one, as [[other.section]].
struct RepeatedSection {
  std::string section;
  std::vector<FileKey> known;                  ///< its keys, for errors
  std::function<std::vector<FileKey>()> next;  ///< makes one more; the keys' targets are of that one
};

/// Puts what the text says where the keys point, and returns the dotted names of the keys it gives (not of repeated sections).
/// `path` names the text in errors. Throws InputError, for a required key of a repeated section that is missing too.
std::vector<std::string> read_keys(const std::string& text, const std::string& path, const std::vector<FileKey>& keys,
                                   const std::vector<RepeatedSection>& repeated = {});

/// Puts the value of "section.key=value", which is TOML (a bare word counts as a string), where the key points. Returns the
/// dotted name.
std::string read_override(const std::string& text, const std::vector<FileKey>& keys);

/// Throws InputError for the first required key that was not given.
void check_required(const std::string& path, const std::vector<FileKey>& keys, const std::vector<std::string>& given);

}  // namespace weft
