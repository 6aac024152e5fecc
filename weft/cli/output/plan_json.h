// What `weft plan` prints with --json.
#pragma once

#include <string>

#include "weft/cli/output/plan_text.h"

namespace weft {

/// The fastest layouts, whether their order holds, what was searched and left out; without a layout what would make one fit.
std::string plan_json(const PlanReport& report);

}  // namespace weft
