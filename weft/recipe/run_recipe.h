// RunRecipe: the section [run] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/recipe/run_length.h"

namespace weft {

/// The section [run].
struct RunRecipe {
  // How long it is: one of these four.
  std::optional<int64_t> steps;    ///< updates
  std::optional<double> epochs;    ///< passes over the training data
  std::optional<double> samples;   ///< trained on
  std::optional<double> tokens;    ///< trained on
  RunLength evaluate_every;        ///< none: only at the end
  std::string evaluate = "ema";    ///< with optimizer.ema: "ema" | "weights" | "both", of which the average decides
  std::string target;              ///< as parse_run_target() reads it: an evaluation that reaches it ends the run
  uint64_t seed = 1;               ///< of weights, dropout and the order of samples
  std::optional<int64_t> threads;  ///< per rank; default cores / local ranks, or 1 with reproducible_slots or _tp
  int64_t reproducible_slots = 0;  ///< 0: off; a power of two that the data-parallel ranks divide
  int64_t reproducible_tp = 0;     ///< 0: off; a power of two that layout.tp divides
  bool noise_scale = false;        ///< measure the gradient noise scale
  std::string device = "auto";     ///< "auto" | "cpu" | "cuda"
  double timeout_s = 300.0;        ///< deadline of a collective
  std::string ports;               ///< "20000-20100": base/port_range.h; empty: WEFT_PORTS, or any
  int64_t restarts = 0;            ///< how often the launcher starts a run again that failed
  std::string name;                ///< in checkpoints; empty: the recipe's file name
  std::string resume = "auto";     ///< "auto": from save.folder's newest checkpoint, if any; "none"; or a checkpoint's path
};

/// How long it is, by whichever is told; none where none is.
RunLength length_of(const RunRecipe& recipe);

}  // namespace weft
