// flat_memory: places the flat buffers of a rank's model, and shares initial values of torch modules.
#pragma once

#include "weft/comm/mesh.h"
#include "weft/engine/axis_groups.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/program/program.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// Memory of the model on `rank` of the program. Memory that peers read in collectives is registered with their group; the rest
/// is plain memory of the run's device.
FlatOptions flat_memory(const Program& program, int rank, const Mesh& mesh, const AxisGroups& groups,
                        const TrainerOptions& options);

/// Shares the initial values of torch modules: from the world's rank 0 along its pipeline, then to each stage's other ranks,
/// axis by axis. Collective over the world.
void share_given(FlatModel& model, const AxisGroups& groups);

}  // namespace weft
