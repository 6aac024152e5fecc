// Matches the tensors of a weights file with a model's parameters and buffers: makes all checks possible before reading.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/checkpoint/weights/weights_file.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/train/trainer/checkpoint_options.h"

namespace weft {

/// The result of matching.
struct WeightsMatch {
  std::map<std::string, std::string> in_file;  ///< tensor names by name in the model; without skipped ones
  WeightsReport report;
};

/// Matches the tensors of `file`, which `path` names, with the parameters and buffers of the model; reads at most tied
/// embeddings. Throws InputError like Trainer::load_weights().
WeightsMatch match_weights(WeightsFile& file, const std::string& path, const FlatModel& model, const WeightsOptions& options);

}  // namespace weft
