// A block's piece of the autograd graph: cut off from the block before, and run backward by itself.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// The same values as new leaves that gradients arrive in; token ids take none.
Tensors detach(const Tensors& tensors);
/// The same of a block's outputs, for the next one. Gradients arrive only where there is a graph behind: nothing that the
/// others came from is trained.
Tensors detach_outputs(const Tensors& outputs);

/// Runs the graph behind `outputs` from `gradients` on; an output that nothing used, or that has no graph, is left out.
void run_backward(const Tensors& outputs, const Tensors& gradients);

/// What has arrived in leaves made by detach(); undefined where nothing has.
Tensors take_gradients(const Tensors& inputs);

}  // namespace weft
