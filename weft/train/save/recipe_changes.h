// Recipe keys that may change between a checkpoint and the run that resumes from it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace weft {

/// Returns true if a key may change: one of placement, speed, length, evaluation or saving, but not one of the computation:
/// model, data, global batch, optimizer, seed.
bool may_change(const std::string& key);
/// Lists keys that may not change but have other values: "optimizer.lr was 0.1, is 0.2". Keys in only one recipe come from
/// another weft version, and count as unchanged.
std::vector<std::string> recipe_changes(const std::map<std::string, std::string>& before,
                                        const std::map<std::string, std::string>& now);

}  // namespace weft
