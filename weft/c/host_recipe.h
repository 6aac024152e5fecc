// The recipe of a host program, which passes the data itself.
#pragma once

#include <functional>
#include <string>

#include "weft/recipe/recipe.h"

namespace weft::c {

/// Who makes the model.
enum class ModelOf { recipe, program };

/// Parses a recipe whose [data] may be left out, as its data is not opened: what would read or write files besides the model's
/// is reset, with a line to `note` if the text had it. The same for [model] if the program makes it; the run's length may then
/// be left out too, if the rate does not depend on it. Throws InputError as parse_recipe(), and for lengths in epochs, or in
/// tokens of a program's own model.
Recipe host_recipe(const std::string& text, ModelOf model, const std::function<void(const std::string&)>& note);

}  // namespace weft::c
