// Checks of meshes, batches and models against a Trainer's options. Each throws InputError.
#pragma once

#include <cstdint>

#include "weft/comm/mesh.h"
#include "weft/data/dataset.h"
#include "weft/nn/model.h"
#include "weft/program/program.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// Only the axes pp, dp, shard, cp and tp may be above 1, outermost first in this order.
void check_mesh(const Mesh& mesh);

/// The global batch, and that of each ramp phase, must divide over `ranks`, those that read different samples, and into their
/// micro-batches and slots; phases must not shrink.
void check_batch(const TrainerOptions& options, int ranks);
/// At most as many votes as can travel with the losses.
void check_votes(const Votes& votes);
/// Not with `graph`.
void check_histograms(const TrainerOptions& options);
/// Each tensor of a micro-batch must have `samples` samples.
void check_micro_batch(const Batch& batch, int64_t samples);

/// A given program must have been made for the same model and layout as `frame`.
void check_frame(const Program& program, const Program& frame);

/// The program of a ramp's phase must place blocks and buffers like the last phase's.
void check_same_memory(const Program& program, const Program& phase);

/// Some block must be able to recompute parts, if the layout asks for it.
void check_parts(const Model& model, const LayoutOptions& layout);
/// Each buffer must have its own values, of a type that checkpoints can store.
void check_buffers(const Model& model);
/// No parameter may have been made in inference mode, because autograd cannot use it.
void check_tensors(const Model& model);
/// Returns true if any parameter is trained.
bool trains(const Model& model);

}  // namespace weft
