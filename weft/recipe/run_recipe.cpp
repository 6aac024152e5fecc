#include "weft/recipe/run_recipe.h"

namespace weft {

RunLength length_of(const RunRecipe& recipe) {
  if (recipe.steps) return {static_cast<double>(*recipe.steps), LengthUnit::steps};
  if (recipe.epochs) return {*recipe.epochs, LengthUnit::epochs};
  if (recipe.samples) return {*recipe.samples, LengthUnit::samples};
  return {recipe.tokens.value_or(0.0), LengthUnit::tokens};
}

}  // namespace weft
