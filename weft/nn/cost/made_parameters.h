// Parameters of a model that is measured (measure_cost.h), on the meta device.
#pragma once

#include "weft/nn/cost/cost_options.h"
#include "weft/nn/model.h"

namespace weft {

/// Gives the parameters the types of a run, and gradient buffers, so that layers write to these as in a run.
void make_parameters(Model& model, const CostOptions& options);

/// Gives them back the shapes and the type that they had, without gradients.
void restore_parameters(Model& model);

}  // namespace weft
