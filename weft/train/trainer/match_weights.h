// Which tensor of a file of weights each parameter and buffer of a model starts from: all that can be told before any is read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/checkpoint/weights/weights_file.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/train/trainer/checkpoint_options.h"

namespace weft {

/// What fits together.
struct WeightsMatch {
  std::map<std::string, std::string> in_file;  ///< by the name in the model: the tensor's; skipped ones are not there
  WeightsReport report;
};

/// Matches the tensors of `file`, which `path` names, with the parameters and buffers of the model; reads at most tied
/// embeddings. Throws InputError where Trainer::load_weights() does.
WeightsMatch match_weights(WeightsFile& file, const std::string& path, const FlatModel& model, const WeightsOptions& options);

}  // namespace weft
