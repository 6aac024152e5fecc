// The owner decides whether a torch::nn module trains or evaluates, separately for each module within it.
#pragma once

#include <functional>

#include "weft/nn/block.h"

namespace torch::nn {
class Module;
}

namespace weft {

/// Runs `run` with the module and all modules within it in eval(); then, also if it throws, restores each one's flag.
Tensors run_in_evaluation(torch::nn::Module& module, const std::function<Tensors()>& run);

}  // namespace weft
