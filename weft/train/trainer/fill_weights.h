// Loads a model's weights from other tools' files.
#pragma once

#include <string>

#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

/// Fills this rank's share of the weights, reading only that share, and its buffers, after checking that all match
/// (match_weights.h). Memory: 16 MiB, or the longest StateRun if that is more. Engine::gather_whole() must follow. Throws
/// InputError like Trainer::load_weights().
WeightsReport fill_weights(TrainerState& trainer, const std::string& path, const WeightsOptions& options);

}  // namespace weft
