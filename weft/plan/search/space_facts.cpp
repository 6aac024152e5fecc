#include "weft/plan/search/space_facts.h"

#include "weft/plan/layout/composition.h"
#include "weft/plan/layout/resolve.h"
#include "weft/recipe/build/build_model.h"

namespace weft {

namespace {

int64_t saved_bytes(const ModelCost& cost) {
  int64_t sum = 0;
  for (const BlockCost& block : cost.blocks) sum += block.saved_bytes;
  return sum;
}

}  // namespace

SpaceFacts space_facts(const Recipe& recipe, int world, const Hardware& hardware, CostTable& costs) {
  const Model model = build_model(recipe.model);
  SpaceFacts facts{.blocks = static_cast<int>(model.blocks.size()), .tokens = tokens_per_sample(recipe.model)};
  if (model_facts(model, facts.tokens).has_statistics) {
    Recipe mesh = recipe;  // a style, "auto" among them, is what a search replaces
    mesh.layout.style = LayoutRecipe().style;
    facts.micro = resolve(mesh, world).micro_batch;
    check_micro_batch(hardware, *facts.micro);
  }
  if (hardware.micro_batch) facts.micro = *hardware.micro_batch;
  const int64_t whole = saved_bytes(costs.model_cost(1));
  facts.recomputes_attention = saved_bytes(costs.model_cost(1, {.recompute_parts = true})) != whole;
  return facts;
}

}  // namespace weft
