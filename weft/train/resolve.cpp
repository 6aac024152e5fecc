#include "weft/train/resolve.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft {

namespace {

/// "63, 66": the multiples of `unit` around `number`; "66" where the lower one is zero.
std::string nearest_multiples(int64_t number, int64_t unit) {
  const int64_t below = number / unit * unit, above = below + unit;
  return below == 0 ? fmt::format("{}", above) : fmt::format("{}, {}", below, above);
}

int resolve_dp(const Recipe& recipe, int world) {
  const LayoutRecipe& layout = recipe.layout;
  const std::pair<const char*, int64_t> others[] = {
      {"pp", layout.pp}, {"shard", layout.shard}, {"cp", layout.cp}, {"tp", layout.tp}};
  for (const auto& [name, size] : others) {
    if (size > 1) {
      throw InputError(
          fmt::format("{}: layout.{} = {} is not available yet; only layout.dp may be above 1", recipe.path, name, size));
    }
  }
  const int64_t dp = layout.dp.value_or(world);
  if (dp != world) {
    throw InputError(fmt::format(
        "{}: the mesh has {} ranks (layout.dp = {}), but the world has {} (-n); leave layout.dp out and it takes them all",
        recipe.path, dp, dp, world));
  }
  return static_cast<int>(dp);
}

void check_slots(const Recipe& recipe, int ranks) {
  const int64_t slots = recipe.run.reproducible_slots;
  if (slots % ranks == 0) return;
  throw InputError(fmt::format(
      "{}: run.reproducible_slots = {} does not divide over {} data-parallel ranks; use a power of two of ranks, at most {}",
      recipe.path, slots, ranks, slots));
}

/// Samples a forward. Its multiple `parts` (ranks, or slots) must fill the global batch a whole number of times.
int64_t resolve_micro(const Recipe& recipe, int64_t parts, const std::string& what) {
  const int64_t global = recipe.batch.global;
  const int64_t unit = recipe.batch.micro.value_or(1) * parts;
  if (global % unit == 0) return recipe.batch.micro.value_or(global / parts);
  const std::string divisor = recipe.batch.micro ? fmt::format("{} times batch.micro = {}", what, *recipe.batch.micro) : what;
  throw InputError(fmt::format("{}: batch.global = {} does not divide over {}; the nearest that do: {}", recipe.path, global,
                               divisor, nearest_multiples(global, unit)));
}

}  // namespace

ResolvedLayout resolve(const Recipe& recipe, int world_size) {
  if (world_size < 1) throw InputError(fmt::format("-n {}: the number of ranks must be at least 1", world_size));
  ResolvedLayout layout;
  layout.world = world_size;
  layout.dp = resolve_dp(recipe, world_size);
  layout.global_batch = recipe.batch.global;
  const int ranks = layout.data_ranks();
  const int64_t slots = recipe.run.reproducible_slots;
  if (slots > 0) {
    check_slots(recipe, ranks);
    layout.micro_batch = resolve_micro(recipe, slots, fmt::format("run.reproducible_slots = {}", slots));
    layout.slots_per_rank = static_cast<int>(slots / ranks);
  } else {
    layout.micro_batch = resolve_micro(recipe, ranks, fmt::format("{} data-parallel ranks", ranks));
  }
  layout.micro_batches_per_rank = static_cast<int>(layout.global_batch / layout.micro_batch / ranks);
  return layout;
}

}  // namespace weft
