// Plan: all that is known of a recipe's run before it starts: its layout, what the model costs, where it is cut into stages,
// and the verified program. Needs neither data nor weights.
#pragma once

#include <string>

#include "weft/program/program.h"
#include "weft/train/plan/resolve.h"

namespace weft {

struct Plan {
  ResolvedLayout layout;  ///< its options hold the stages and the schedule
  ModelCost cost;         ///< of one micro-batch
  Program program;
  std::string stages_text;  ///< for people: which stages, and why; empty without a pipeline
};

}  // namespace weft
