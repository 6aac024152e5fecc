// KeyRule: the condition under which a recipe key is read. Setting a key that nothing reads is a mistake, and is rejected; the
// table has a rule for every key (docs/recipes.md), and a test checks every rule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// Treatment of a key that is set where nothing reads it.
enum class Unread {
  never,    ///< not applicable: the key is always read
  stands,   ///< accepted: recipes for several layouts, models and optimizers share it (docs/recipes.md)
  refused,  ///< rejected by check_keys_are_read(), unless an earlier check has a more specific error
  planned,  ///< rejected when the run is planned
};

/// The rule of one key.
struct KeyRule {
  std::string_view key;  ///< "data.shuffle_mb"; for a repeated section without the number: "data.mix.path"
  Unread unread = Unread::never;
  std::string_view readers = {};             ///< the condition for reading it, in words: "data.name = \"jsonl\" or \"parquet\""
  bool (*is_read)(const Recipe&) = nullptr;  ///< null: always, or, for keys of a part, as `readers` says
};

/// The rule of a key, possibly numbered ("data.mix.2.path"); null if it has no rule, which a test treats as a mistake.
const KeyRule* key_rule(std::string_view key);

/// Keys that differ from their defaults though nothing reads them, and whose rule is to reject them.
std::vector<std::string> unread_keys(const Recipe& recipe);

/// Throws InputError for the first unread key that no later check handles better.
void check_keys_are_read(const Recipe& recipe);

}  // namespace weft
