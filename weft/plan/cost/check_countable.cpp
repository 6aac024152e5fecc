#include "weft/plan/cost/check_countable.h"

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/program/limits.h"
#include "weft/recipe/build/build_model.h"

namespace weft {

void check_countable(const Recipe& recipe, int64_t micro_batch) {
  const RoughSize size = rough_size(recipe.model);
  if (size.weights > static_cast<double>(kMostElements)) {
    throw InputError(
        fmt::format("{}: the model has some {:.1e} weights, more than the {:.1e} that can be counted; use fewer or "
                    "narrower layers (model.layers, model.width)",
                    recipe.path, size.weights, static_cast<double>(kMostElements)));
  }
  const double activations = size.sample_bytes * static_cast<double>(micro_batch);
  if (activations <= static_cast<double>(kMostBytes)) return;
  throw InputError(
      fmt::format("{}: a micro-batch of {} samples needs some {:.1e} bytes with this model, more than can be counted; "
                  "use smaller ones (batch.micro), more data-parallel ranks or a smaller model",
                  recipe.path, micro_batch, activations));
}

}  // namespace weft
