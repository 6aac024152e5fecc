// Schedule: model parallelism without a pipeline. Ranks take turns: a micro-batch goes forward through all stages and back
// before the next one starts. On one rank this is plain gradient accumulation: F0 B0 F1 B1 ...
//
// Memory: one micro-batch's activations of the rank's stage.
// Bubble, with equal stages on p ranks: (p - 1) / p, whatever the number of micro-batches (one is enough).
#pragma once

#include "weft/program/pipeline/shape.h"

namespace weft {

/// Returns the schedule for `shape`. Throws InputError unless it has one chunk per rank.
Schedule naive_schedule(const PipelineShape& shape);

}  // namespace weft
