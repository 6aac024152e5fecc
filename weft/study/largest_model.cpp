#include "weft/study/largest_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "weft/base/error.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/recipe/build/build_model.h"

namespace weft {

namespace {

constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kParts = 16;

/// Parameters of the model with so many layers if some layout of it fits, else 0.
int64_t parameters_that_fit(const Recipe& recipe, int64_t layers, int world_size, const Hardware& hardware,
                            const SearchOptions& options) {
  Recipe deep = recipe;
  deep.model.layers = layers;
  const auto costs = std::make_shared<CostTable>(for_hardware(deep, hardware));
  SearchOptions any = options;
  any.most = 1;
  any.finds_any = true;
  const SearchResult result = search_layouts(deep, world_size, hardware, any, costs);
  if (result.best.empty()) return 0;
  int64_t parameters = 0;
  for (const BlockCost& block : costs->model_cost(1).blocks) parameters += block.parameters;
  return parameters;
}

}  // namespace

LargestModel largest_model(const Recipe& recipe, int world_size, const Hardware& hardware, const SearchOptions& options) {
  if (!reads_tokens(recipe.model) || recipe.model.name == kExportedName) {
    throw InputError(fmt::format("--largest: model.name = \"{}\" has no layers to add; leave it out", recipe.model.name));
  }
  LargestModel largest;
  int64_t too_many = kMostLayers + 1;
  const auto fits = [&](int64_t layers) {
    const int64_t parameters = parameters_that_fit(recipe, layers, world_size, hardware, options);
    if (parameters > 0) largest = {.layers = layers, .parameters = parameters};
    if (parameters == 0) too_many = layers;
    return parameters > 0;
  };
  for (int64_t layers = recipe.model.layers; !fits(layers) && layers > 1;) layers /= 2;
  if (largest.layers == 0) return largest;
  while (too_many > kMostLayers && largest.layers < kMostLayers) fits(std::min(2 * largest.layers, kMostLayers));
  while (too_many - largest.layers > std::max<int64_t>(1, largest.layers / kParts)) fits((largest.layers + too_many) / 2);
  return largest;
}

}  // namespace weft
