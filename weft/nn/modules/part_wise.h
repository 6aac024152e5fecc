// part_wise: torch::nn modules without parameters that act on part of an activation as on the whole.
#pragma once

#include <optional>

#include "weft/nn/activation_form.h"

namespace torch::nn {
class Module;
}

namespace weft {

/// Returns the module's output form for an input of form `parts`: activation functions take any, pooling takes channels, and
/// Flatten turns channels into rows. Returns nothing for all other modules, which mix parts of different ranks (Softmax), draw
/// the same numbers for each part (Dropout), or may do either (Functional).
std::optional<ActivationForm> part_wise(const torch::nn::Module& module, const ActivationForm& parts);

}  // namespace weft
