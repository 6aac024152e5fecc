// Opens the datasets of a recipe: maps data names to readers, and knows the default paths.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/data/dataset.h"
#include "weft/data/images/image_source.h"
#include "weft/data/tokens/token_source.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// A further evaluation set.
struct NamedDataset {
  std::string name;               ///< evaluation.name
  std::shared_ptr<Dataset> data;  ///< the whole set
};

/// The two parts of a recipe's data, and its further evaluation sets.
struct Datasets {
  std::shared_ptr<Dataset> training;      ///< training samples
  std::shared_ptr<Dataset> evaluation;    ///< held-out samples
  std::vector<NamedDataset> others = {};  ///< from the sections [[evaluation]]
};

/// The raw contents of a set, before samples are made: images or tokens; or the samples of arrays. The others are null.
struct OpenedSet {
  std::shared_ptr<const ImageSource> images = nullptr;  ///< of sets of images
  std::shared_ptr<const TokenSource> tokens = nullptr;  ///< of sets of tokens
  std::shared_ptr<const TokenSource> strict = nullptr;  ///< token files: the same tokens, ids checked against the vocabulary
  std::shared_ptr<const Dataset> samples = nullptr;     ///< of sets of arrays
  std::vector<std::string> classes = {};                ///< class names in label order, for a folder of classes
};

/// A set named in the recipe.
struct DataSet {
  std::string name;                 ///< "training", "evaluation", evaluation.name; for a mixture "data.mix.1 (books), training"
  std::function<OpenedSet()> open;  ///< throws InputError
};

/// All sets, each opened separately for inspection rather than training: damaged data is left out, regardless of data.skip_bad,
/// and ids of token files are not checked against the vocabulary. Both parts of one stream are one set.
std::vector<DataSet> data_sets(const Recipe& recipe);

/// Opens the recipe's data. Throws InputError with the file and a remedy, also when data and model do not match (images for a
/// gpt).
Datasets open_data(const Recipe& recipe);

}  // namespace weft
