#include "weft/train/run/shared_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "weft/base/deadline.h"
#include "weft/base/error.h"
#include "weft/base/file_error.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/await.h"
#include "weft/plan/make_plan.h"
#include "weft/plan/pipeline/pipeline_text.h"
#include "weft/train/run/options_of_recipe.h"

namespace weft {

namespace {

constexpr char kKey[] = "searched pipeline";

// A search is limited to some 20 s of CPU time, which takes longer on a busy machine.
constexpr std::chrono::minutes kLongestSearch{5};

std::string text_for_others(const Recipe& recipe, const Plan& plan) {
  return is_searched(recipe) ? pipeline_text(plan.layout.options.pipeline, recipe.layout.schedule != "auto") : "";
}

Plan plan_of_found(const Recipe& recipe, const World& world, const PipelineOptions& found) {
  try {
    return make_plan(recipe, world.size(), found);
  } catch (const FileError&) {
    throw;  // an error in a file of this rank, independent of rank 0
  } catch (const InputError& error) {
    throw InputError(fmt::format("{} (rank {} with the schedule that rank 0 found: were all started with the same recipe?)",
                                 error.what(), world.rank()));
  }
}

Plan plan_of_rank(const Recipe& recipe, const World& world, Store& store) {
  if (world.rank() == 0) {
    Plan plan = make_plan(recipe, world.size());
    // Also without a search: ranks with another recipe may wait for it, and the later comparison of ranks reports those.
    store.set(kKey, text_for_others(recipe, plan), timeout_of(recipe));
    return plan;
  }
  if (!is_searched(recipe)) return make_plan(recipe, world.size());
  const Deadline deadline = std::max<std::chrono::milliseconds>(timeout_of(recipe), kLongestSearch);
  const std::string found = await_key(store, kKey, deadline, wait_for_rank(0, "reading the schedule that it searches"));
  if (found.empty()) return make_plan(recipe, world.size());
  return plan_of_found(recipe, world, read_pipeline(found));
}

}  // namespace

Plan shared_plan(const Recipe& recipe, const World& world) {
  if (world.size() == 1) return make_plan(recipe, 1);
  Store store = world.next_group_store();
  try {
    return plan_of_rank(recipe, world, store);
  } catch (const Error& error) {
    Store answer = store.within(timeout_of(recipe));
    report_failure(answer, error);
    throw;
  }
}

}  // namespace weft
