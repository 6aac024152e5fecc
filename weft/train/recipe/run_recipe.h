// RunRecipe: the section [run] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

/// The section [run].
struct RunRecipe {
  int64_t steps = 0;               ///< to train
  int64_t evaluate_every = 0;      ///< 0: only at the end
  std::string target;              ///< as parse_run_target() reads it: an evaluation that reaches it ends the run
  uint64_t seed = 1;               ///< of weights, dropout and the order of samples
  std::optional<int64_t> threads;  ///< per rank; default cores / local ranks, or 1 with reproducible_slots or _tp
  int64_t reproducible_slots = 0;  ///< 0: off; a power of two that the data-parallel ranks divide
  int64_t reproducible_tp = 0;     ///< 0: off; a power of two that layout.tp divides
  std::string device = "auto";     ///< "auto" | "cpu" | "cuda"
  double timeout_s = 300.0;        ///< deadline of a collective
  int64_t restarts = 0;            ///< how often the launcher starts a run again that failed
  std::string name;                ///< in checkpoints; empty: the recipe's file name
  std::string resume = "auto";     ///< "auto": from save.folder's newest checkpoint, if any; "none"; or a checkpoint's path
};

}  // namespace weft
