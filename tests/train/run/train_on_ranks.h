// train_on_ranks: a recipe's training on threads of this process, and rank 0's report.
#pragma once

#include <utility>

#include "tests/support/run_ranks.h"
#include "weft/recipe/recipe.h"
#include "weft/train/run/train.h"

namespace weft::test {

inline FinalReport train_on_ranks(int ranks, const Recipe& recipe, const TrainOptions& options = {}) {
  FinalReport report;
  run_ranks(ranks, [&](const World& world) {
    FinalReport own = train(recipe, world, options);
    if (world.rank() == 0) report = std::move(own);
  });
  return report;
}

}  // namespace weft::test
