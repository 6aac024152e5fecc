#include "weft/recipe/build/data_checks.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/printable.h"
#include "weft/data/interleave.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/data_names.h"
#include "weft/recipe/limits.h"
#include "weft/recipe/recipe_failure.h"

namespace weft {

namespace {

/// Nearest divisor of up to `most`; the smaller of two equally near.
int64_t nearest_divisor(int64_t number, int64_t wanted, int64_t most) {
  int64_t nearest = 1;
  const auto consider = [&](int64_t divisor) {
    if (divisor > most) return;
    const int64_t distance = std::abs(divisor - wanted), least = std::abs(nearest - wanted);
    if (distance < least || (distance == least && divisor < nearest)) nearest = divisor;
  };
  for (int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor != 0) continue;
    consider(divisor);
    consider(number / divisor);
  }
  return nearest;
}

void check_class_weights(const Recipe& recipe) {
  const ModelRecipe& model = recipe.model;
  if (reads_tokens(model)) fail(recipe, "model.class_weights is for images and arrays, not for text; leave it out");
  int64_t given = 0;
  try {
    given = std::ssize(class_weights(model));
  } catch (const InputError& error) {
    fail(recipe, "{}", error.what());
  }
  if (given == model.classes || reads_arrays(model)) return;
  fail(recipe, "model.class_weights has {} numbers for model.classes = {}; give one per class", given, model.classes);
}

void check_exported(const Recipe& recipe) {
  const ModelRecipe& model = recipe.model;
  if (model.path.empty()) {
    fail(recipe, "model.path is missing: model.name = \"exported\" needs the file that torch.export.save() wrote");
  }
  if (!has_classes(model) && model.loss != "mean_squares" && !has_loss_file(model)) {
    fail(recipe, "model.loss = \"{}\"; it must be \"cross_entropy\", \"mean_squares\" or a file, \"FILE.pt2\"",
         shortened(model.loss));
  }
}

void check_images(const Recipe& recipe, const NamedData& named) {
  const ModelRecipe& model = recipe.model;
  if (model.channels == 2) fail(recipe, "model.channels = 2; it must be 1 or 3");
  if (named.channels > model.channels) {
    fail(recipe, "model.channels = {}: data.name = \"{}\" is in colour; set model.channels = 3", model.channels, named.name);
  }
  if (named.channels > 0 && (recipe.data.alpha != DataRecipe().alpha || recipe.data.exif_rotation)) {
    fail(recipe, "data.alpha and data.exif_rotation are for image files, not for data.name = \"{}\"; leave them out",
         named.name);
  }
  if (recipe.data.crop_padding >= model.image_size) {
    fail(recipe, "data.crop_padding = {}: images of model.image_size = {} would be shifted out of view",
         recipe.data.crop_padding, model.image_size);
  }
  if (recipe.data.crop_padding > 0 && recipe.data.least_area > 0.0) {
    fail(recipe, "data.crop_padding and data.least_area are two ways to move an image; leave one of them out");
  }
}

/// Checks that assume heads divide the width.
void check_llama(const Recipe& recipe) {
  const ModelRecipe& model = recipe.model;
  if (model.width / model.heads % 2 != 0) {
    fail(recipe, "model.width = {} over model.heads = {} makes heads of {}; rotary positions need an even number", model.width,
         model.heads, model.width / model.heads);
  }
  if (model.kv_heads > 0 && model.heads % model.kv_heads != 0) {
    fail(recipe, "model.kv_heads = {} does not divide model.heads = {}; the nearest that does is {}", model.kv_heads,
         model.heads, nearest_divisor(model.heads, model.kv_heads, kMostHeads));
  }
}

void check_columns(const Recipe& recipe, const NamedData& named) {
  const DataRecipe& data = recipe.data;
  if (!named.has_columns && !data.column.empty()) {
    fail(recipe, "data.column is read only with data.name = \"jsonl\" or \"parquet\" (here: \"{}\"); leave it out", data.name);
  }
  if (data.label_column == DataRecipe().label_column) return;
  if (data.name != kParquetName || reads_tokens(recipe.model)) {
    fail(recipe, "data.label_column is read only for images with data.name = \"parquet\"; leave it out");
  }
}

void check_pack(const Recipe& recipe) {
  const DataRecipe& data = recipe.data;
  const bool packs = data.pack == "documents";
  if (packs && !reads_tokens(recipe.model)) fail(recipe, "data.pack is for tokens; leave it out");
  if (packs && recipe.layout.cp > 1) {
    fail(recipe,
         "data.pack = \"documents\" with layout.cp = {}, whose ranks share samples as one sequence; use cp = 1, or \"stream\"",
         recipe.layout.cp);
  }
  if (!data.document_end) return;
  if (!packs || data.name != "tokens") {
    fail(recipe, "data.document_end is read only with data.name = \"tokens\" and data.pack = \"documents\"; leave it out");
  }
  if (*data.document_end >= recipe.model.vocabulary) {
    fail(recipe, "data.document_end = {} is not below model.vocabulary = {}", *data.document_end, recipe.model.vocabulary);
  }
}

void check_mix(const Recipe& recipe) {
  const DataRecipe& data = recipe.data;
  if (data.name != kMixName) {
    fail(recipe, "[[data.mix]] is read only with data.name = \"mix\" (here: \"{}\"); set that, or leave it out", data.name);
  }
  if (data.mix.empty()) fail(recipe, "data.name = \"mix\" needs one [[data.mix]] per part, with name, path and weight");
  if (!data.path.empty() || !data.evaluation_path.empty() || data.tokenizer != DataRecipe().tokenizer ||
      data.column != DataRecipe().column || data.document_end) {
    fail(recipe,
         "data.path, evaluation_path, tokenizer, column and document_end of a mixture belong to its parts: move them below "
         "[[data.mix]]");
  }
  std::vector<double> weights;
  weights.reserve(data.mix.size());
  for (const MixPart& part : data.mix) weights.push_back(part.weight);
  try {
    whole_weights(weights);
  } catch (const InputError& error) {
    fail(recipe, "[[data.mix]]: {}", error.what());
  }
  for (size_t i = 0; i < data.mix.size(); ++i) check_model_and_data(recipe_of_part(recipe, i));
}

}  // namespace

Recipe recipe_of_part(const Recipe& recipe, size_t number) {
  Recipe of_part = recipe;
  const MixPart& part = recipe.data.mix[number];
  of_part.data.mix.clear();
  of_part.data.name = part.name;
  of_part.data.path = part.path;
  of_part.data.evaluation_path = part.evaluation_path;
  of_part.data.tokenizer = part.tokenizer;
  of_part.data.column = part.column;
  of_part.data.document_end = part.document_end;
  if (part.name != kParquetName) of_part.data.label_column = DataRecipe().label_column;  // reset for other kinds
  of_part.run.seed = splitmix64(recipe.run.seed + number + 1);                           // no two parts are augmented alike
  return of_part;
}

void check_model_and_data(const Recipe& recipe) {
  const ModelRecipe& model = recipe.model;
  const DataRecipe& data = recipe.data;
  if (data.name == kMixName || !data.mix.empty()) return check_mix(recipe);
  if (reads_tokens(model) && model.width % model.heads != 0) {
    fail(recipe, "model.heads = {} does not divide model.width = {}; the nearest that does is {}", model.heads, model.width,
         nearest_divisor(model.width, model.heads, kMostHeads));
  }
  if (model.name == "llama") check_llama(recipe);
  if (!model.class_weights.empty()) check_class_weights(recipe);
  if (model.name == kExportedName) check_exported(recipe);
  const NamedData& named = named_data(data.name);
  const bool is_text = reads_tokens(model), is_arrays = reads_arrays(model), is_images = !is_text && !is_arrays;
  if (is_text ? !named.is_tokens : is_arrays ? !named.is_arrays : !named.is_images) {
    fail(recipe, "model.name = \"{}\"{} cannot learn from data.name = \"{}\"; it needs {}", model.name,
         is_arrays ? " with model.inputs = \"arrays\"" : "", data.name,
         is_text     ? "\"text\", \"jsonl\", \"parquet\" or \"tokens\""
         : is_arrays ? "\"arrays\""
                     : "images, such as \"fashion-mnist\"");
  }
  if (is_images) check_images(recipe, named);
  check_pack(recipe);
  if (!is_images && data.skip_bad && !named.has_columns) {
    fail(recipe, "data.skip_bad skips damaged images and rows; data.name = \"{}\" has none; leave it out", data.name);
  }
  check_columns(recipe, named);
  if (!data.evaluation_path.empty() && !named.is_files) {
    fail(recipe,
         "data.evaluation_path is read only with data.name = \"webdataset\", \"parquet\", \"jsonl\" or \"arrays\" (here: "
         "\"{}\"); leave it out",
         data.name);
  }
  if (!is_images) {
    const std::pair<bool, const char*> of_images[] = {{data.mixup > 0.0, "data.mixup"},
                                                      {is_text && model.label_smoothing > 0.0, "model.label_smoothing"},
                                                      {data.flip, "data.flip"},
                                                      {data.alpha != DataRecipe().alpha, "data.alpha"},
                                                      {data.exif_rotation, "data.exif_rotation"},
                                                      {data.crop_padding > 0, "data.crop_padding"},
                                                      {data.least_area > 0.0, "data.least_area"}};
    for (const auto& [is_set, key] : of_images) {
      if (is_set) fail(recipe, "{} is for images, not for {}; leave it out", key, is_text ? "text" : "arrays");
    }
  }
  if (data.name != "tokens" && named.is_tokens && data.tokenizer != "bytes") {
    fail(recipe, "data.tokenizer = \"{}\" is for data.name = \"tokens\"; \"{}\" takes \"bytes\"", data.tokenizer, data.name);
  }
  if (data.name == "text" && model.vocabulary < 256) {
    fail(recipe, "model.vocabulary = {} is too small for bytes; it must be at least 256", model.vocabulary);
  }
  if (named.needs_path && data.path.empty()) {
    fail(recipe, "data.path is missing: data.name = \"{}\" has no default; add it or --set data.path={}", data.name,
         data.name == "tokens" ? "FILE" : "FOLDER");
  }
}

}  // namespace weft
