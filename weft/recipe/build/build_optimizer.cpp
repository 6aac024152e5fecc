#include "weft/recipe/build/build_optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

template <class Value>
void take(const std::optional<Value>& from, Value& to) {
  if (from) to = *from;
}

/// Copies the recipe's numbers into the fields that this options type has.
template <class Options>
OptimizerOptions read(const OptimizerRecipe& recipe) {
  Options o;
  o.lr = recipe.lr;
  o.weight_decay = recipe.weight_decay;
  if constexpr (requires { o.beta1; }) {
    take(recipe.beta1, o.beta1);
    take(recipe.beta2, o.beta2);
  }
  if constexpr (requires { o.alpha; }) take(recipe.alpha, o.alpha);
  if constexpr (requires { o.eps; }) take(recipe.eps, o.eps);
  if constexpr (requires { o.momentum; }) take(recipe.momentum, o.momentum);
  if constexpr (requires { o.nesterov; }) take(recipe.nesterov, o.nesterov);
  if constexpr (requires { o.trust; }) take(recipe.trust, o.trust);
  if constexpr (requires { o.trust_limit; }) o.trust_limit = recipe.trust_limit;
  if constexpr (requires { o.beta2_decay; }) {
    take(recipe.beta2_decay, o.beta2_decay);
    take(recipe.min_rms, o.min_rms);
    take(recipe.update_clip, o.update_clip);
  }
  if constexpr (requires { o.ns_steps; }) {
    o.adjust = kMatrixRates.value_of(recipe.matrix_rate, "optimizer.matrix_rate");
    o.ns_steps = static_cast<int>(recipe.ns_steps);
    o.ns_eps = recipe.ns_eps;
    take(recipe.adam_lr, o.adam_lr);
  }
  return o;
}

struct NamedOptimizer {
  std::string_view name;
  OptimizerOptions (*make)(const OptimizerRecipe& recipe);
};

constexpr NamedOptimizer kOptimizers[] = {{"adamw", read<AdamW>},     {"sgd", read<Sgd>},   {"lars", read<Lars>},
                                          {"lamb", read<Lamb>},       {"lion", read<Lion>}, {"rmsprop", read<RmsProp>},
                                          {"adagrad", read<Adagrad>}, {"muon", read<Muon>}, {"adafactor", read<Adafactor>}};

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const NamedOptimizer& optimizer : kOptimizers) names.emplace_back(optimizer.name);
  return names;
}

OptimizerOptions optimizer_of(const OptimizerRecipe& recipe) {
  for (const NamedOptimizer& optimizer : kOptimizers) {
    if (optimizer.name == recipe.name) return optimizer.make(recipe);
  }
  throw InputError(
      fmt::format("optimizer.name is '{}'; it must be one of {}", shortened(recipe.name), fmt::join(optimizer_names(), ", ")));
}

}  // namespace weft
