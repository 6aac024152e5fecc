// KeyRule: when a key of a recipe is read. A key that was set where nothing reads it was meant otherwise, and is refused; a
// table has a rule for each key there is (docs/recipes.md), and a test one for each rule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// What is done about a key where nothing reads it.
enum class Unread {
  never,    ///< it is always read
  stands,   ///< it may stand there: recipes of several layouts, models and optimizers have it (docs/recipes.md)
  refused,  ///< by check_keys_are_read(), where no check with more to say has come before
  planned,  ///< refused as the run is planned
};

/// Of one key.
struct KeyRule {
  std::string_view key;  ///< "data.shuffle_mb"; of a section that is repeated without a number: "data.mix.path"
  Unread unread = Unread::never;
  std::string_view readers = {};             ///< what it is read with, in words: "data.name = \"jsonl\" or \"parquet\""
  bool (*is_read)(const Recipe&) = nullptr;  ///< null: always, or as `readers` of a part say
};

/// The rule of a key, which may have a number ("data.mix.2.path"); null where it has none, which a test takes for a mistake.
const KeyRule* key_rule(std::string_view key);

/// Keys that are not as they are where they are left out, and that nothing reads, of those for which that is refused.
std::vector<std::string> unread_keys(const Recipe& recipe);

/// Throws InputError for the first of them that no later check has more to say of.
void check_keys_are_read(const Recipe& recipe);

}  // namespace weft
