#include "weft/train/run/shared_plan.h"

#include <string>

#include "weft/base/deadline.h"
#include "weft/base/error.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/await.h"
#include "weft/train/plan/make_plan.h"
#include "weft/train/plan/pipeline_text.h"
#include "weft/train/run/from_recipe.h"

namespace weft {

namespace {

constexpr char kKey[] = "searched pipeline";

Plan plan_of_rank(const Recipe& recipe, const World& world, Store& store, const Deadline& deadline) {
  if (world.rank() == 0) {
    Plan plan = make_plan(recipe, world.size());
    // Also where nothing is searched, for ranks whose recipe says otherwise: they are told when ranks compare what they do.
    store.set(kKey, is_searched(recipe) ? pipeline_text(plan.layout.options.pipeline) : "", deadline);
    return plan;
  }
  if (!is_searched(recipe)) return make_plan(recipe, world.size());
  const std::string found = await_key(store, kKey, deadline, wait_for_rank(0, "reading the schedule that it searches"));
  if (found.empty()) return make_plan(recipe, world.size());
  return make_plan(recipe, world.size(), read_pipeline(found));
}

}  // namespace

Plan shared_plan(const Recipe& recipe, const World& world) {
  if (world.size() == 1) return make_plan(recipe, 1);
  const Deadline deadline = timeout_of(recipe);
  Store store = world.next_group_store().within(deadline);
  try {
    return plan_of_rank(recipe, world, store, deadline);
  } catch (const Error& error) {
    tell_failure(store, error);
    throw;
  }
}

}  // namespace weft
