#include "weft/plan/search/block_facts.h"

#include "weft/base/error.h"
#include "weft/plan/make_plan.h"
#include "weft/plan/pipeline/pipeline_plan.h"
#include "weft/plan/pipeline/stage_fitter.h"

namespace weft {

BlockFacts& BlockFactsTable::at(const BlockChoice& choice, const LayoutChoice& layout) {
  const auto found = known_.find(choice);
  return found != known_.end() ? found->second : known_.emplace(choice, made(layout)).first->second;
}

void BlockFactsTable::measure(const LayoutChoice& layout) const {
  try {
    const ResolvedLayout resolved = resolve(recipe_of(space_, layout), space_.world);
    costs_->model_cost(resolved.micro_batch, resolved.options, resolved);
  } catch (const InputError&) {  // made() reports it
  }
}

BlockFacts BlockFactsTable::made(const LayoutChoice& layout) {
  BlockFacts facts;
  try {
    const ResolvedLayout resolved = resolve(recipe_of(space_, layout), space_.world);
    facts.cost = &costs_->model_cost(resolved.micro_batch, resolved.options, resolved);
    facts.weight_bytes = weight_bytes(resolved.options.precision);
    facts.gradient_bytes = gradient_bytes(resolved.options, resolved.reproducible);
    facts.keeps_order = resolved.reproducible;
    check_micro_batch(hardware_, resolved.micro_batch);
    const auto known = passes_.find(facts.cost);
    const PassBounds& passes =
        known != passes_.end()
            ? known->second
            : passes_.emplace(facts.cost, pass_bounds(*facts.cost, resolved.options, resolved, space_.world, hardware_))
                  .first->second;
    facts.passes = with_recompute(passes, *facts.cost, resolved.options.recompute_every);
  } catch (const InputError& error) {
    facts.why_not = error.what();
    return facts;
  }
  // Statistics over ranks make costs depend on these ranks.
  if (space_.base.layout.sync_batch_norm != "none")
    facts.passes = {.blocks = std::vector<PassBound>(facts.cost->blocks.size())};
  return facts;
}

const Found<std::vector<int>>& BlockFactsTable::cut(const LayoutChoice& layout, int stages) {
  BlockFacts& facts = at(layout.blocks, layout);
  const auto [found, is_new] = facts.cuts.try_emplace({stages, layout.pipeline.stages});
  if (!is_new) return found->second;
  const Recipe recipe = recipe_of(space_, layout);
  Plan base;
  base.layout = resolve(recipe, space_.world);
  base.cost = *facts.cost;
  try {
    const std::vector<BlockWork> work = work_of(recipe, base);
    found->second = StageFitter(recipe, base, work).cut(stages);
  } catch (const InputError& error) {  // layout.profile has times of another micro-batch
    found->second.why_not = error.what();
  }
  return found->second;
}

}  // namespace weft
