// auto_layout: the layout that layout = "auto" stands for on a number of ranks.
#pragma once

#include <string>
#include <vector>

#include "weft/plan/search/layout_search.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// True for layout = "auto".
bool is_automatic(const Recipe& recipe);

/// Keys of [layout] and batch.micro that differ from their defaults, which a search for layout = "auto" leaves as they are.
std::vector<std::string> keys_to_keep(const Recipe& recipe);

/// Returns the recipe with the layout and micro-batch of `found`: all other keys are the recipe's own.
Recipe with_layout(Recipe recipe, const LayoutForecast& found);

/// The recipe's layout and micro-batch as "section.key=value", as --set takes them: all keys that have a value.
std::vector<std::string> layout_settings(const Recipe& recipe);

/// Throws InputError for layout = "auto" without run.hardware.
void check_automatic(const Recipe& recipe);

/// The fastest layout by the file that run.hardware names. Throws InputError if none fits, and as search_layouts() does.
LayoutForecast choose_layout(const Recipe& recipe, int world_size);

/// Returns the recipe, with a layout in place of "auto": by `hardware` if that path is not empty, otherwise by run.hardware.
Recipe with_chosen_layout(Recipe recipe, int world_size, const std::string& hardware = {});

}  // namespace weft
