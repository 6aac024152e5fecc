// fail(): rejects a recipe.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "weft/base/error.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Throws InputError for recipe keys that conflict, with a formatted text.
template <typename... Args>
[[noreturn]] void fail(const Recipe& recipe, fmt::format_string<Args...> text, Args&&... args) {
  throw InputError(fmt::format("{}: {}", recipe.path, fmt::format(text, std::forward<Args>(args)...)));
}

}  // namespace weft
