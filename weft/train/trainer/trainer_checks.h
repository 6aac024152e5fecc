// What a Trainer refuses: meshes, batches and models that do not go with its options. Each throws InputError.
#pragma once

#include <cstdint>

#include "weft/comm/mesh.h"
#include "weft/data/dataset.h"
#include "weft/nn/model.h"
#include "weft/program/program.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// Of a mesh's axes only pp, dp, shard, cp and tp may be above 1, outermost first in this order.
void check_mesh(const Mesh& mesh);

/// The global batch, and that of each phase of a ramp, must divide over `ranks`, those that read different samples, and into
/// their micro-batches and slots; phases must not shrink.
void check_batch(const TrainerOptions& options, int ranks);
/// As many votes as may travel with the losses.
void check_votes(const Votes& votes);
/// Each tensor of a micro-batch must have `samples` samples.
void check_micro_batch(const Batch& batch, int64_t samples);

/// A program that was made beforehand must be for what `frame` is for.
void check_frame(const Program& program, const Program& frame);

/// The program of a batch ramp's phase must place blocks and buffers as that of the last one does.
void check_same_memory(const Program& program, const Program& phase);

/// Some block must have parts to compute again, where the layout asks for that.
void check_parts(const Model& model, const LayoutOptions& layout);
/// Each buffer must have values of its own, of a type that checkpoints have.
void check_buffers(const Model& model);
/// No parameter's tensor may have been made in inference mode, as it can be in no graph.
void check_tensors(const Model& model);
/// Whether any parameter is trained.
bool trains(const Model& model);

}  // namespace weft
