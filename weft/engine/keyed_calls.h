// Keyed calls: what the engine runs of a model's, forward, backward and loss, each under generators with a key of its own
// (nn/keyed_generators.h).
#pragma once

#include <c10/util/FunctionRef.h>

#include <string>

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// Runs `call`, which belongs to the block, with what it draws keyed by (seed, step, name, sample) of the context; an
/// evaluation's numbers are others than a step's. `part` tells apart what is run of a block: "" for its forward, whose errors
/// the caller names; those that LibTorch throws in others (" backward") begin with part and block.
void keyed_call(const FlatModel& model, int block, const Context& context, const std::string& part,
                c10::function_ref<void()> call);

/// The same of what belongs to the model's loss.
void keyed_loss_call(const FlatModel& model, const Context& context, const std::string& part, c10::function_ref<void()> call);

}  // namespace weft
