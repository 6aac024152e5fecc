// Plan: everything known about a recipe's run before it starts: its layout, the model's costs, its stages and the verified
// program that `weft memory` estimates, that is simulated and drawn, and that a Trainer runs. Needs neither data nor weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/plan/layout/resolve.h"
#include "weft/program/program.h"

namespace weft {

class CostTable;

/// A recipe's run for a number of ranks, before it starts.
struct Plan {
  ResolvedLayout layout;                             ///< including stages and schedule
  std::shared_ptr<CostTable> costs;                  ///< costs for this and other layouts
  ModelCost cost;                                    ///< cost of one micro-batch
  std::shared_ptr<const Program> program;            ///< verified
  std::vector<std::shared_ptr<const Program>> ramp;  ///< by phase of batch.ramp; other members describe the last phase
  std::string stages_text;  ///< report of the stages; empty without a pipeline, or if found on another rank
};

}  // namespace weft
