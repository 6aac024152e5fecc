// The optimizer that options tell of.
#pragma once

#include <memory>

#include "weft/optim/optimizer.h"

namespace weft {

/// The optimizer of `model`, which must outlive it. Throws InputError for a value out of its range.
std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options);

}  // namespace weft
