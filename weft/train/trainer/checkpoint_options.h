// How a Trainer saves and loads a checkpoint, what came of loading, and state of a user's own, or of the run around a trainer,
// that joins its checkpoints under a name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/checkpoint/safetensors.h"
#include "weft/checkpoint/weights/weight_names.h"

namespace weft {

/// How a checkpoint is saved.
struct SaveOptions {
  bool replace = false;              ///< a checkpoint that is there already
  std::function<void()> after = {};  ///< run on rank 0's saving thread once the checkpoint is whole
};

/// How a checkpoint is loaded.
struct LoadOptions {
  /// Tensors and registered states that the checkpoint has and the trainer lacks, or the other way round, are an error. false:
  /// they are left out, and told.
  bool strict = true;
};

/// What came of loading a checkpoint.
struct LoadReport {
  int64_t step = 0;                       ///< steps that were done when it was saved
  int64_t bytes_read = 0;                 ///< of data files, by this rank
  std::vector<std::string> skipped = {};  ///< what strict = false left out, or that an average begins anew, a line each
};

/// How a model starts from weights in a file.
struct WeightsOptions {
  WeightNames names = {};  ///< what they are called there
  /// Patterns of names in the model ("fc.*", "*.bias"; a '*' stands for any text, with dots): what is called so stays as it is,
  /// whatever the file has. Each must fit a parameter of the model or a tensor of the file.
  std::vector<std::string> skip = {};
  bool average = false;  ///< of a checkpoint of weft's: the average of the weights that its run kept
};

/// What came of it.
struct WeightsReport {
  std::vector<std::string> skipped = {};  ///< parameters of the model that WeightsOptions::skip left as they were
  std::vector<std::string> unused = {};   ///< names in the file that the model has no use for
  std::vector<std::string> notes = {};    ///< what is worth telling of how they were found and compared, a line each
  int64_t bytes_read = 0;                 ///< of parameters, by this rank
};

/// State that saves and loads with a trainer's, alike on all ranks: tensors, or a text, or both.
struct RegisteredState {
  std::vector<NamedTensor> tensors = {};              ///< contiguous; load() fills them in place
  std::function<std::string()> save = {};             ///< a text, of which a JSON object keeps no blanks; called on rank 0
  std::function<void(const std::string&)> load = {};  ///< takes it, on every rank
};

}  // namespace weft
