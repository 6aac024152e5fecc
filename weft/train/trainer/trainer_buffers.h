// flat_memory: where the flat buffers of a rank's model lie, and how values that torch modules were made with are shared.
#pragma once

#include "weft/comm/mesh.h"
#include "weft/engine/axis_groups.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/program/program.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// What `rank` of the program has of the model's memory. What collectives read from peers lies in buffers registered with their
/// group, the rest in plain memory of the run's device.
FlatOptions flat_memory(const Program& program, int rank, const Mesh& mesh, const AxisGroups& groups,
                        const TrainerOptions& options);

/// Shares the values that torch modules were made with: from the world's rank 0 along its pipeline, and from there to each
/// stage's other ranks, axis by axis. Collective over the world.
void share_given(FlatModel& model, const AxisGroups& groups);

}  // namespace weft
