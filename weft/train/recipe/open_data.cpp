#include "weft/train/recipe/open_data.h"

#include "weft/data/images.h"
#include "weft/data/tokens.h"
#include "weft/train/recipe/build_model.h"
#include "weft/train/recipe/recipe_checks.h"

namespace weft {

namespace {

Datasets open_image_data(const Recipe& recipe) {
  const std::string folder = recipe.data.path.empty() ? kFashionMnistFolder : recipe.data.path;
  const auto open = [&](ImageSplit split) {
    ImageFiles files = mnist_files(folder, split);
    files.classes = static_cast<int>(recipe.model.classes);
    return open_images(files);
  };
  return {open(ImageSplit::training), open(ImageSplit::evaluation)};
}

TokenType token_type(const DataRecipe& data) {
  if (data.name == "text") return TokenType::u8;
  return data.tokenizer == "uint32" ? TokenType::u32 : TokenType::u16;
}

Datasets open_token_data(const Recipe& recipe) {
  const double split = 1.0 - recipe.data.evaluation;
  TokenFile file{.path = recipe.data.path.empty() ? kDefaultTextFolder : recipe.data.path,
                 .type = token_type(recipe.data),
                 .vocabulary = recipe.model.vocabulary,
                 .begin = 0.0,
                 .end = split,
                 .context = recipe.model.context,
                 .shift = true,
                 .seed = recipe.run.seed};
  Datasets datasets;
  datasets.training = open_tokens(file);
  file.begin = split;
  file.end = 1.0;
  file.shift = false;
  datasets.evaluation = open_tokens(file);
  return datasets;
}

}  // namespace

Datasets open_data(const Recipe& recipe) {
  check_model_and_data(recipe);
  return reads_tokens(recipe.model) ? open_token_data(recipe) : open_image_data(recipe);
}

}  // namespace weft
