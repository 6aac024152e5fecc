// What the outputs of blocks must be, so that what is before them is trained.
#pragma once

#include <cstddef>

#include "weft/nn/model.h"

namespace weft {

/// Throws InputError for complex outputs of that block, and for outputs without a gradient if it or a block before it has a
/// trained parameter.
void check_outputs(const Model& model, size_t block, const Tensors& outputs, bool has_gradient);

}  // namespace weft
