// Keyed calls: run a block's forward or backward, or the loss, under random generators with a key per call
// (nn/keyed_generators.h).
#pragma once

#include <c10/util/FunctionRef.h>

#include <string>

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// Runs `call`, which belongs to the block, with random draws keyed by (seed, step, name, sample) of the context; evaluation
/// and training steps draw different numbers. `part` names the pass: "" for forward, whose errors the caller names; LibTorch
/// errors in other passes (" backward") are prefixed with part and block.
void keyed_call(const FlatModel& model, int block, const Context& context, const std::string& part,
                c10::function_ref<void()> call);

/// Same for the model's loss.
void keyed_loss_call(const FlatModel& model, const Context& context, const std::string& part, c10::function_ref<void()> call);

}  // namespace weft
