#include "weft/train/recipe/recipe_optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

template <class Options>
Options common(const OptimizerRecipe& recipe) {
  Options options;
  options.lr = recipe.lr;
  options.weight_decay = recipe.weight_decay;
  return options;
}

void take(const std::optional<double>& from, double& to) {
  if (from) to = *from;
}

OptimizerOptions adamw(const OptimizerRecipe& recipe) {
  auto options = common<AdamW>(recipe);
  take(recipe.beta1, options.beta1);
  take(recipe.beta2, options.beta2);
  take(recipe.eps, options.eps);
  return options;
}

OptimizerOptions sgd(const OptimizerRecipe& recipe) {
  auto options = common<Sgd>(recipe);
  take(recipe.momentum, options.momentum);
  options.nesterov = recipe.nesterov;
  return options;
}

OptimizerOptions lars(const OptimizerRecipe& recipe) {
  auto options = common<Lars>(recipe);
  take(recipe.momentum, options.momentum);
  take(recipe.trust, options.trust);
  take(recipe.eps, options.eps);
  options.nesterov = recipe.nesterov;
  options.trust_limit = recipe.trust_limit;
  return options;
}

OptimizerOptions lamb(const OptimizerRecipe& recipe) {
  auto options = common<Lamb>(recipe);
  take(recipe.beta1, options.beta1);
  take(recipe.beta2, options.beta2);
  take(recipe.eps, options.eps);
  options.trust_limit = recipe.trust_limit;
  return options;
}

OptimizerOptions lion(const OptimizerRecipe& recipe) {
  auto options = common<Lion>(recipe);
  take(recipe.beta1, options.beta1);
  take(recipe.beta2, options.beta2);
  return options;
}

OptimizerOptions rmsprop(const OptimizerRecipe& recipe) {
  auto options = common<RmsProp>(recipe);
  take(recipe.alpha, options.alpha);
  take(recipe.eps, options.eps);
  take(recipe.momentum, options.momentum);
  return options;
}

OptimizerOptions adagrad(const OptimizerRecipe& recipe) {
  auto options = common<Adagrad>(recipe);
  take(recipe.eps, options.eps);
  return options;
}

struct NamedOptimizer {
  std::string_view name;
  OptimizerOptions (*make)(const OptimizerRecipe& recipe);
};

constexpr NamedOptimizer kOptimizers[] = {{"adamw", adamw}, {"sgd", sgd},         {"lars", lars},      {"lamb", lamb},
                                          {"lion", lion},   {"rmsprop", rmsprop}, {"adagrad", adagrad}};

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
