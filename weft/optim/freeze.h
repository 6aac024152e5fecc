// with_rules: a model with some parameters frozen by name.
#pragma once

#include "weft/nn/model.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// Returns the model with the parameters frozen that `rules` freeze. Running statistics still update. Throws InputError for a
/// rule with a value out of range, or one that is not the first match of any parameter.
Model with_rules(Model model, const ParameterRules& rules);

}  // namespace weft
