// toml_value: a key's value as TOML.
#pragma once

#include <string>

#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// Returns the value at `target` as it stands in a file, which reads back to the same; empty for a value that is left out.
std::string toml_value(const KeyTarget& target);

}  // namespace weft
