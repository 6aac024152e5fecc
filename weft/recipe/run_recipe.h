// RunRecipe: the section [run] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/recipe/run_length.h"

namespace weft {

/// The section [run].
struct RunRecipe {
  // Length of the run: exactly one of these four.
  std::optional<int64_t> steps;    ///< updates
  std::optional<double> epochs;    ///< passes over the training data
  std::optional<double> samples;   ///< training samples
  std::optional<double> tokens;    ///< training tokens
  RunLength evaluate_every;        ///< unset: only at the end
  std::string evaluate = "ema";    ///< with optimizer.ema: "ema" | "weights" | "both"; with "both" the average decides
  std::string target;              ///< in parse_run_target() form: the first evaluation that reaches it ends the run
  uint64_t seed = 1;               ///< for weights, dropout and the order of samples
  std::optional<int64_t> threads;  ///< per rank; unset: cores / local ranks, or 1 with reproducible_slots or reproducible_tp
  int64_t reproducible_slots = 0;  ///< 0: off; a power of two that the data-parallel ranks divide
  int64_t reproducible_tp = 0;     ///< 0: off; a power of two that layout.tp divides
  bool noise_scale = false;        ///< measure the gradient noise scale
  std::string device = "auto";     ///< "auto" | "cpu" | "cuda"
  std::string hardware;      ///< a hardware file or a shipped one's name, for layout = "auto" and predictions; empty: none
  bool graph = false;        ///< on a GPU: a step is captured as a graph and replayed
  double timeout_s = 300.0;  ///< deadline of a collective
  std::string ports;         ///< "20000-20100": base/port_range.h; empty: WEFT_PORTS, or any
  int64_t restarts = 0;      ///< most restarts of a failed run by the launcher
  std::string name;          ///< stored in checkpoints; empty: the recipe's file name
  std::string folder;        ///< where records of the run are kept; empty: in save.folder, if that is a local folder
  RunLength log_every = {1.0, LengthUnit::steps};  ///< interval between records of steps
  bool tensorboard = false;                        ///< also for TensorBoard
  bool csv = false;                                ///< also as CSV
  RunLength histograms_every;                      ///< unset: no histograms for TensorBoard; not in seconds
  RunLength audit_every;                           ///< unset: no audits; not in seconds
  std::string stop_on = "none";                    ///< "divergence" | "audit": what ends the run; "any": either
  std::string resume = "auto";  ///< "auto": from save.folder's newest checkpoint, if any; "none"; or a checkpoint's path
};

/// Length of the run, from whichever key is set; empty if no key is.
RunLength length_of(const RunRecipe& recipe);

}  // namespace weft
