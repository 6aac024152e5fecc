#include "weft/train/run/recipe_agreement.h"

#include <fmt/format.h>

#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/train/run/data_text.h"

namespace weft {

namespace {

/// The other sections are compared by their effect (agreement.h).
bool is_compared(const FileKey& key) {
  if (key.section == "run") {
    return key.name == "steps" || key.name == "epochs" || key.name == "samples" || key.name == "tokens" ||
           key.name == "evaluate_every" || key.name == "target" || key.name == "stop_on";
  }
  const bool is_place = key.name == "path" || key.name == "evaluation_path";
  return key.section == "model" || key.section == "save" || (key.section.starts_with("data") && !is_place);
}

}  // namespace

std::string recipe_agreement(const Recipe& recipe, const Datasets& data) {
  Recipe copy = recipe;
  std::string text;
  for (const FileKey& key : recipe_keys(copy)) {
    if (is_compared(key)) text += fmt::format("{}: {}\n", key.dotted(), value_text(key.target));
  }
  text += fmt::format("training data: {}\nevaluation data: {}\n", data_text(*data.training), data_text(*data.evaluation));
  for (const NamedDataset& set : data.others) text += fmt::format("evaluation data {}: {}\n", set.name, data_text(*set.data));
  return text;
}

}  // namespace weft
