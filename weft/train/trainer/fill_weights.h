// A model's weights from files of others.
#pragma once

#include <string>

#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

/// Fills what this rank owns of the weights, of which it reads no more than that, and its buffers, once all of them fit
/// (match_weights.h). Memory: 16 MiB beside a run of elements. Engine::gather_whole() must follow. Throws InputError where
/// Trainer::load_weights() does.
WeightsReport fill_weights(TrainerState& trainer, const std::string& path, const WeightsOptions& options);

}  // namespace weft
