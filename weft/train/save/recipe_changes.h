// What of a recipe may change between a checkpoint and the run that goes on from it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace weft {

/// Whether a key may: where and how fast things run, how long, what is evaluated and saved; not what is computed: model, data,
/// global batch, optimizer, seed.
bool may_change(const std::string& key);
/// Of keys that may not change and have other values, a line each: "optimizer.lr was 0.1, is 0.2". Keys that only one recipe
/// has are those of another weft, and no change.
std::vector<std::string> recipe_changes(const std::map<std::string, std::string>& before,
                                        const std::map<std::string, std::string>& now);

}  // namespace weft
