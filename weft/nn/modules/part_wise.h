// part_wise: torch::nn modules without parameters that work on a part of an activation as they do on the whole.
#pragma once

#include <optional>

#include "weft/nn/activation_form.h"

namespace torch::nn {
class Module;
}

namespace weft {

/// What the module makes of parts: activation functions take any, pooling those by channels, and Flatten makes rows of these.
/// Nothing for all others, which mix what ranks have apart (Softmax), or draw the same numbers for it (Dropout), or may
/// (Functional).
std::optional<ActivationForm> part_wise(const torch::nn::Module& module, const ActivationForm& parts);

}  // namespace weft
