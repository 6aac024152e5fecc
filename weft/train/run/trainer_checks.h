// What a Trainer refuses: meshes, batches and models that do not go with its options. Each throws InputError.
#pragma once

#include <cstdint>

#include "weft/comm/mesh.h"
#include "weft/data/dataset.h"
#include "weft/nn/model.h"
#include "weft/train/run/trainer_options.h"

namespace weft {

/// Only 'pp', 'dp' and 'shard' may be above 1, outermost first in this order.
void check_mesh(const Mesh& mesh);

/// `ranks` read different samples.
void check_batch(const TrainerOptions& options, int ranks);
/// That each tensor of a micro-batch has `samples` samples.
void check_micro_batch(const Batch& batch, int64_t samples);

/// Some block has parts to compute again, where the layout asks for that.
void check_parts(const Model& model, const LayoutOptions& layout);
/// Whether any parameter is trained.
bool trains(const Model& model);

}  // namespace weft
