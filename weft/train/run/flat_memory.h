// flat_memory: where the flat buffers of a rank's model lie, and how values that torch modules were made with are shared.
#pragma once

#include "weft/comm/mesh.h"
#include "weft/nn/flat.h"
#include "weft/program/program.h"
#include "weft/train/run/groups.h"
#include "weft/train/run/trainer_options.h"

namespace weft {

/// For `rank` of the program. What collectives read from peers lies in buffers registered with their group, the rest in plain
/// memory of the run's device.
FlatOptions flat_memory(const Program& program, int rank, const Mesh& mesh, const RankGroups& groups,
                        const TrainerOptions& options);

}  // namespace weft
