// A model's weights from files of others.
#pragma once

#include <string>
#include <vector>

#include "weft/checkpoint/weights/weights_file.h"
#include "weft/train/run/trainer_parts.h"

namespace weft {

/// Fills what this rank owns of the weights, and its buffers; returns names of the file that the model has no use for. One
/// tensor at a time is whole. Engine::gather_whole() must follow. Throws InputError where a weight or a buffer is missing, but
/// for counts (BufferSpec), or has another shape, and where a buffer has another type; floats may be wider or narrower.
std::vector<std::string> fill_weights(TrainerParts& trainer, const std::string& path, const WeightNames& names);

}  // namespace weft
