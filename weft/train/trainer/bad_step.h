// The ranks agree on what was not finite first in a step that all of them have repeated.
#pragma once

#include "weft/comm/mesh.h"
#include "weft/engine/finding.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// The same error on all ranks, with the findings of all, the first one first. Collective over the world, through its store.
BadStep agreed_on(const BadStep& own, const Mesh& mesh, const TrainerOptions& options);

}  // namespace weft
