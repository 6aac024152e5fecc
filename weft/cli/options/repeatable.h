// repeatable: an option that takes one value each time it is given.
#pragma once

#include <CLI/Option.hpp>
#include <string>

namespace weft {

/// `value`: what help calls it, "KEY=VALUE". CLI11 alone would take all words that follow, and show "TEXT ...".
inline CLI::Option* repeatable(CLI::Option* option, const std::string& value) {
  return option->allow_extra_args(false)->type_name(value)->option_text(value);
}

}  // namespace weft
