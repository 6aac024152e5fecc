// Constructs the optimizer selected by its options.
#pragma once

#include <memory>

#include "weft/optim/optimizer.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// Makes the optimizer of `model`, which must outlive it, with the rates and decays of `rules` (parameters that they freeze
/// must already be frozen: with_rules()). Throws InputError for a value out of range.
std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options, const ParameterRules& rules = {});

}  // namespace weft
