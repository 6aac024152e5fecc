#include "weft/train/recipe/recipe_optimizer.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {

OptimizerOptions optimizer_of(const OptimizerRecipe& o) {
  if (o.name == "sgd") return Sgd{.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay, .nesterov = o.nesterov};
  if (o.name != "adamw") throw InputError(fmt::format("optimizer.name is '{}'; it must be adamw or sgd", shortened(o.name)));
  return AdamW{.lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay};
}

}  // namespace weft
