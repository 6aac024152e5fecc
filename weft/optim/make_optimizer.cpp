#include "weft/optim/make_optimizer.h"

#include "weft/optim/element_wise_optimizer.h"

namespace weft {

std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options, const ParameterRules& rules) {
  check_optimizer(options);
  return std::visit([&](const auto& o) { return make_of(model, o, rules); }, options);
}

}  // namespace weft
