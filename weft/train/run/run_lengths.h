// RunLengths: a recipe's lengths, once the data is known.
#pragma once

#include <cstdint>
#include <string>

#include "weft/recipe/recipe.h"

namespace weft {

/// In steps what is counted in them; in steps or samples what is due again and again, or in seconds.
struct RunLengths {
  int64_t steps = 0;         ///< of the run; its last step reaches the length that the recipe tells
  int64_t warmup = 0;        ///< steps of it
  int64_t decay_every = 0;   ///< steps between drops
  RunLength evaluate_every;  ///< run.evaluate_every
  RunLength save_every;      ///< save.every
  RunLength keep_every;      ///< save.keep_every
  RunLength memory_every;    ///< save.memory_every
};

/// The lengths of a run on so many training samples. Throws InputError for a run that is too long, and where the warm-up does
/// not end within it.
RunLengths run_lengths(const Recipe& recipe, int64_t training_samples);

/// What those come to that are not told in steps: "10 epochs are 4688 steps; warm-up of 1 epoch: 469"; empty where all are.
std::string run_lengths_text(const Recipe& recipe, int64_t training_samples);

}  // namespace weft
