// Options and results of saving and loading a Trainer's checkpoints, and additional state (the user's, or the run's) saved in
// them under a name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/checkpoint/safetensors.h"
#include "weft/checkpoint/weights/weight_names.h"

namespace weft {

/// Options of saving a checkpoint.
struct SaveOptions {
  bool replace = false;              ///< overwrite an existing checkpoint
  std::function<void()> after = {};  ///< run on rank 0's saving thread once the checkpoint is complete
};

/// Options of loading a checkpoint.
struct LoadOptions {
  /// Rejects a checkpoint if only one side, checkpoint or trainer, has a tensor or registered state; false: skips and reports
  /// it.
  bool strict = true;
  std::string loosely = "strict = false";  ///< what errors say to set for that
};

/// Result of loading a checkpoint.
struct LoadReport {
  int64_t step = 0;                       ///< steps done when it was saved
  int64_t bytes_read = 0;                 ///< from data files, by this rank
  std::vector<std::string> skipped = {};  ///< parts skipped with strict = false, or an average that is restarted, one line each
};

/// Options of starting from weights in a file.
struct WeightsOptions {
  WeightNames names = {};  ///< names of the weights in the file
  /// Patterns of names in the model ("fc.*", "*.bias"; '*' matches any text, dots included): matching parameters keep their
  /// values, whatever the file has. Each pattern must match a parameter of the model or a tensor of the file.
  std::vector<std::string> skip = {};
  bool average = false;  ///< for a weft checkpoint: loads the average of the weights that its run kept
};

/// Result of loading weights.
struct WeightsReport {
  std::vector<std::string> skipped = {};  ///< parameters kept because of WeightsOptions::skip
  std::vector<std::string> unused = {};   ///< names in the file that the model does not use
  std::vector<std::string> notes = {};    ///< notes on how they were found and compared, one line each
  int64_t bytes_read = 0;                 ///< for parameters, by this rank
  std::string digest = {};                ///< of some of the values, which all ranks compare; empty: one rank
};

/// State saved and loaded with a trainer's, the same on all ranks: tensors, a text, or both.
struct RegisteredState {
  std::vector<NamedTensor> tensors = {};              ///< contiguous; load() fills them in place
  std::function<std::string()> save = {};             ///< returns a text; a JSON object is stored without blanks; on rank 0
  std::function<void(const std::string&)> load = {};  ///< parses that text, on every rank
};

}  // namespace weft
