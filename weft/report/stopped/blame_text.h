// What `weft blame` prints: who did not come to what, where each rank stands, calls that differ, and the culprit's stack.
#pragma once

#include <string>
#include <vector>

#include "weft/report/stopped/who_is_missing.h"

namespace weft {

/// `problems`: files that could not be read.
std::string blame_text(const Evidence& all, const std::vector<std::string>& problems);
/// The same as JSON: {"culprit":...,"text":...,"ranks":[...],"differing":[...],"stack":[...],"problems":[...]}.
std::string blame_json(const Evidence& all, const std::vector<std::string>& problems);

}  // namespace weft
