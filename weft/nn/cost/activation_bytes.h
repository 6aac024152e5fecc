// activation_bytes: sizes of the lists of tensors passed between blocks.
#pragma once

#include <cstdint>

#include "weft/nn/block.h"

namespace weft {

/// Bytes of all `tensors`.
int64_t bytes_of(const Tensors& tensors);

/// Bytes of those `outputs` that are inputs passed on unchanged and take no gradient, such as token positions
/// (nn/sequence/documents.h).
int64_t passed_bytes(const Tensors& inputs, const Tensors& outputs);

}  // namespace weft
