#include "weft/train/run/shared_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/await.h"
#include "weft/plan/advice/auto_layout.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/toml/toml_reader.h"
#include "weft/train/run/options_of_recipe.h"

namespace weft {

namespace {

constexpr char kLayoutKey[] = "chosen layout";

constexpr std::chrono::minutes kLongestChoice{10};

Recipe with_lines(Recipe recipe, const std::string& lines) {
  const std::vector<FileKey> keys = recipe_keys(recipe);
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) read_override(line, keys);
  return recipe;
}

Recipe chosen(const Recipe& recipe, int world_size, const std::function<void(const std::string&)>& on_note) {
  const LayoutForecast found = choose_layout(recipe, world_size);
  if (on_note) {
    on_note(fmt::format("layout: {}; predicted {} per step, {} on the fullest rank", found.text, format_duration(found.step_s),
                        format_bytes(found.memory_bytes)));
  }
  return with_layout(recipe, found);
}

Recipe layout_of_rank(const Recipe& recipe, const World& world, Store& store,
                      const std::function<void(const std::string&)>& on_note) {
  if (world.rank() == 0) {
    Recipe planned = is_automatic(recipe) ? chosen(recipe, world.size(), on_note) : recipe;
    // Also without a search: a rank with another recipe may wait for it, and the later comparison of ranks reports that.
    store.set(kLayoutKey, fmt::format("{}", fmt::join(layout_settings(planned), "\n")), timeout_of(recipe));
    return planned;
  }
  if (!is_automatic(recipe)) return recipe;
  const Deadline deadline = std::max<std::chrono::milliseconds>(timeout_of(recipe), kLongestChoice);
  return with_lines(recipe, await_key(store, kLayoutKey, deadline, wait_for_rank(0, "reading the layout that it searches")));
}

}  // namespace

Recipe shared_layout(const Recipe& recipe, const World& world, const std::function<void(const std::string&)>& on_note) {
  if (world.size() == 1) return is_automatic(recipe) ? chosen(recipe, 1, on_note) : recipe;
  Store store = world.next_group_store();
  try {
    return layout_of_rank(recipe, world, store, on_note);
  } catch (const Error& error) {
    Store answer = store.within(timeout_of(recipe));
    report_failure(answer, error);
    throw;
  }
}

}  // namespace weft
