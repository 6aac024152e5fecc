// From a recipe to its datasets: the one place that knows the data's names and where set-up puts the defaults.
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

/// One more set to evaluate on.
struct NamedDataset {
  std::string name;               ///< evaluation.name
  std::shared_ptr<Dataset> data;  ///< all of it
};

/// The two parts of a recipe's data, and what it names besides.
struct Datasets {
  std::shared_ptr<Dataset> training;      ///< what steps draw from
  std::shared_ptr<Dataset> evaluation;    ///< what no step sees
  std::vector<NamedDataset> others = {};  ///< of the sections [[evaluation]]
};

/// What one set is read from, before samples are made of it: images or tokens.
struct OpenedSet {
  std::shared_ptr<const ImageSource> images;  ///< null: tokens
  std::shared_ptr<const TokenSource> tokens;  ///< null: images
  std::shared_ptr<const TokenSource> strict;  ///< of token files: the same, with ids held against the vocabulary
  std::vector<std::string> classes = {};      ///< of a folder of classes, in the order of their labels
};

/// A set that the recipe names.
struct DataSet {
  std::string name;                 ///< "training", "evaluation", evaluation.name; of a mixture "data.mix.1 (books), training"
  std::function<OpenedSet()> open;  ///< throws InputError
};

/// All sets, each by itself, to be looked at rather than trained on: what is damaged is left out, whatever data.skip_bad says,
/// and ids of token files are not held against the vocabulary. Both parts of one stream are one set.
std::vector<DataSet> data_sets(const Recipe& recipe);

/// Opens the recipe's data. Throws InputError naming the file and what to do, also when data and model do not fit (images for a
/// gpt).
Datasets open_data(const Recipe& recipe);

}  // namespace weft
