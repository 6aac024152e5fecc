// RunLengths: a recipe's lengths in steps, once the data is known.
#pragma once

#include <cstdint>
#include <string>

#include "weft/recipe/recipe.h"

namespace weft {

/// One-off lengths in steps; recurring ones in steps or samples, or in seconds.
struct RunLengths {
  int64_t steps = 0;             ///< of the run; its last step reaches the recipe's length
  int64_t warmup = 0;            ///< warm-up steps
  int64_t decay_every = 0;       ///< steps between drops
  int64_t audit_every = 0;       ///< steps between audits; 0: none
  int64_t histograms_every = 0;  ///< steps between histograms; 0: none
  RunLength evaluate_every;      ///< run.evaluate_every
  RunLength log_every;           ///< run.log_every
  RunLength save_every;          ///< save.every
  RunLength keep_every;          ///< save.keep_every
  RunLength memory_every;        ///< save.memory_every
};

/// Computes the lengths of a run on this many training samples. Throws InputError for a run that is too long, and if the
/// warm-up does not end within it.
RunLengths run_lengths(const Recipe& recipe, int64_t training_samples);

/// Converts lengths not in steps: "10 epochs of 60000 samples: 4688 steps; warm-up 1 epoch: 469 steps"; empty: none.
std::string run_lengths_text(const Recipe& recipe, int64_t training_samples);

}  // namespace weft
