// pixel_norm: batch_norm() of images that lie channels-last on the CPU, with the addition and the ReLU that follow it, in two
// passes over memory forward and two backward (nn/images/channel_passes.h).
#pragma once

#include <optional>

#include "weft/nn/block.h"
#include "weft/nn/images/batch_statistics.h"

namespace weft {

/// Whether pixel_norm() can take it: float32 or bfloat16 on the CPU (or the meta device), channels last, all else float32.
bool goes_by_pixels(const at::Tensor& x, const BatchNormState& state);

/// What is done with normalised values.
struct AfterNorm {
  std::optional<at::Tensor> added = std::nullopt;  ///< like x
  bool relu = false;                               ///< negative values become 0
};

/// In training: relu(batch_norm(x) + added), which ranks, pieces and errors as batch_norm() has them. Keeps x, and y with a
/// ReLU.
at::Tensor pixel_norm(const at::Tensor& x, const BatchNormState& state, const Context& context, const AfterNorm& after);

}  // namespace weft
