#include "weft/c/host_recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/limits.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_keys.h"

namespace weft::c {
namespace {

constexpr char kName[] = "recipe";  ///< of the text, in errors

/// Sections for which the host program stands in; and what a recipe must say about model and data, if the text does not.
struct HostKeys {
  std::vector<std::string> unread;
  std::vector<std::string> overrides;
};

/// Lengths in epochs of data, or in tokens of samples, that the program alone knows.
void refuse_lengths(const Recipe& recipe, ModelOf model) {
  const std::pair<const char*, RunLength> lengths[] = {{"the run's length", length_of(recipe.run)},
                                                       {"optimizer.warmup", recipe.optimizer.warmup},
                                                       {"optimizer.decay_every", recipe.optimizer.decay_every},
                                                       {"run.audit_every", recipe.run.audit_every}};
  for (const auto& [key, length] : lengths) {
    const bool is_of_tokens = length.unit == LengthUnit::tokens && model == ModelOf::program;
    if (!length || (length.unit != LengthUnit::epochs && !is_of_tokens)) continue;
    throw InputError(fmt::format("{}: {} is in {}, but the program passes the data, whose size is not known; give it in {}",
                                 kName, key, is_of_tokens ? "tokens" : "epochs",
                                 model == ModelOf::program ? "steps or samples" : "steps, samples or tokens"));
  }
}

HostKeys host_keys(const std::string& text, ModelOf model) {
  Recipe recipe;
  const std::vector<std::string> keys = read_keys(text, kName, recipe_keys(recipe), repeated_recipe_sections(recipe));
  refuse_lengths(recipe, model);
  HostKeys found;
  const auto is_of = [](const std::string& section) { return [section](const auto& key) { return key.starts_with(section); }; };
  if (std::any_of(keys.begin(), keys.end(), is_of("data."))) found.unread.emplace_back("[data]");
  if (std::any_of(keys.begin(), keys.end(), is_of("save."))) found.unread.emplace_back("[save]");
  if (!recipe.evaluations.empty()) found.unread.emplace_back("[[evaluation]]");
  const auto has = [&keys](const char* key) { return std::count(keys.begin(), keys.end(), key) > 0; };
  if (model == ModelOf::program) {
    if (std::any_of(keys.begin(), keys.end(), is_of("model."))) found.unread.emplace_back("[model]");
    if (!has("model.name")) found.overrides.emplace_back("model.name=mlp");                          // which is not built
    if (!length_of(recipe.run)) found.overrides.push_back(fmt::format("run.steps={}", kMostCount));  // on which no rate depends
    if (!length_of(recipe.run) && (recipe.optimizer.decay == "linear" || recipe.optimizer.decay == "cosine")) {
      throw InputError(fmt::format("{}: optimizer.decay = \"{}\" needs the run's length: give run.steps, or samples", kName,
                                   shortened(recipe.optimizer.decay)));
    }
  } else if (!has("model.name")) {
    return found;  // which is refused
  }
  const bool has_name = has("model.name");
  if (!has("data.name")) {
    found.overrides.emplace_back(has_name && reads_tokens(recipe.model)   ? "data.name=tokens"
                                 : has_name && reads_arrays(recipe.model) ? "data.name=arrays"
                                                                          : "data.name=images");
  }
  if (!has("data.path") && recipe.data.mix.empty()) found.overrides.emplace_back("data.path=program");  // which is not opened
  return found;
}

}  // namespace

Recipe host_recipe(const std::string& text, ModelOf model, const std::function<void(const std::string&)>& note) {
  const HostKeys keys = host_keys(text, model);
  Recipe recipe = parse_recipe(text, kName, keys.overrides);
  if (!keys.unread.empty()) {
    note(fmt::format("not read from the recipe: {} (the program passes data, evaluates and saves)",
                     fmt::join(keys.unread, ", ")));
  }
  recipe.save = {};
  recipe.evaluations.clear();
  return recipe;
}

}  // namespace weft::c
