// pixel_norm: batch_norm() of channels-last images on the CPU, fused with an addition and a ReLU, in two passes over memory
// forward and two backward (nn/images/channel_passes.h).
#pragma once

#include <optional>

#include "weft/nn/block.h"
#include "weft/nn/images/batch_statistics.h"

namespace weft {

/// Returns whether pixel_norm() supports x: float32 or bfloat16, channels last, on CPU or meta; the statistics in float32.
bool supports_pixel_norm(const at::Tensor& x, const BatchNormState& state);

/// Operations applied to the normalised values.
struct AfterNorm {
  std::optional<at::Tensor> added = std::nullopt;  ///< like x
  bool relu = false;                               ///< negative values become 0
};

/// In training: y = relu(batch_norm(x) + added), with batch_norm()'s ranks, pieces and errors. Keeps x; with ReLU, y.
at::Tensor pixel_norm(const at::Tensor& x, const BatchNormState& state, const Context& context, const AfterNorm& after);

}  // namespace weft
