// with_rules: a model some of whose parameters are frozen by their names.
#pragma once

#include "weft/nn/model.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// The model with what its rules freeze frozen. Running statistics go on moving. Throws InputError for a rule that is out of
/// range, or that is first for no parameter of the model.
Model with_rules(Model model, const ParameterRules& rules);

}  // namespace weft
