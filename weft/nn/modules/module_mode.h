// Whether a torch::nn module trains or evaluates is its owner's to say, of each module within it by itself.
#pragma once

#include <functional>

#include "weft/nn/block.h"

namespace torch::nn {
class Module;
}

namespace weft {

/// run() while the module and all in it are in eval(); then, also where it throws, each has the flag that it had.
Tensors run_in_evaluation(torch::nn::Module& module, const std::function<Tensors()>& run);

}  // namespace weft
