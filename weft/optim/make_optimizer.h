// The optimizer that options tell of.
#pragma once

#include <memory>

#include "weft/optim/optimizer.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// The optimizer of `model`, which must outlive it; the rates and decays of `rules` are heeded (what they freeze is the
/// model's: with_rules()). Throws InputError for a value out of its range.
std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options, const ParameterRules& rules = {});

}  // namespace weft
