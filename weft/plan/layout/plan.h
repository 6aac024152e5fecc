// Plan: all that is known of a recipe's run before it starts: its layout, what the model costs, where it is cut into stages,
// and the verified program: the one that `weft memory` prices, that is simulated and drawn, and that a Trainer runs. Needs
// neither data nor weights.
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
  ResolvedLayout layout;                             ///< its options hold the stages and the schedule
  std::shared_ptr<CostTable> costs;                  ///< of the model in other layouts too
  ModelCost cost;                                    ///< of one micro-batch
  std::shared_ptr<const Program> program;            ///< verified
  std::vector<std::shared_ptr<const Program>> ramp;  ///< of the phases of batch.ramp, in order; the others say the last phase
  std::string stages_text;  ///< for people: which stages, and why; empty without a pipeline, or where another rank found it
};

}  // namespace weft
