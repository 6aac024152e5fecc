// activation_bytes: how large the lists of tensors between blocks are.
#pragma once

#include <cstdint>

#include "weft/nn/block.h"

namespace weft {

/// Of all of them.
int64_t bytes_of(const Tensors& tensors);

/// Of those of `outputs` that are an input handed on as it is, and take no gradient: places of tokens
/// (nn/sequence/documents.h).
int64_t passed_bytes(const Tensors& inputs, const Tensors& outputs);

}  // namespace weft
