#include "weft/train/recipe/open_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "weft/base/error.h"
#include "weft/data/images/cifar.h"
#include "weft/data/images/idx_images.h"
#include "weft/data/images/image_folder.h"
#include "weft/data/images/image_set.h"
#include "weft/data/images/mixup.h"
#include "weft/data/images/web_dataset.h"
#include "weft/data/json_lines.h"
#include "weft/data/mixture.h"
#include "weft/data/packed_tokens.h"
#include "weft/data/token_stream.h"
#include "weft/data/tokens.h"
#include "weft/train/recipe/build_model.h"
#include "weft/train/recipe/data_checks.h"
#include "weft/train/recipe/data_names.h"
#include "weft/train/recipe/open_shards.h"

namespace weft {

namespace {

/// Mean and standard deviation of a set's pixels, by channel: those that are customary for it.
struct PixelStatistics {
  std::vector<double> mean, stddev;
};

PixelStatistics pixel_statistics(const std::string& name) {
  if (name == "cifar10") return {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  if (name == "cifar100") return {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}};
  if (name == "image-folder" || name == "webdataset") return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};  // ImageNet's
  return {{0.2860}, {0.3530}};                                                                                // Fashion-MNIST's
}

/// The folder of a part: the first of its usual names that is there.
std::string folder_of_part(const std::string& folder, bool training) {
  const std::vector<std::string> names =
      training ? std::vector<std::string>{"train"} : std::vector<std::string>{"val", "validation", "test", "evaluation"};
  for (const std::string& name : names) {
    std::error_code ignored;
    const std::string part = (std::filesystem::path(folder) / name).string();
    if (std::filesystem::is_directory(part, ignored)) return part;
  }
  throw InputError(fmt::format("{}: no folder '{}' in it, for {}", folder, fmt::join(names, "' or '"),
                               training ? "training" : "evaluation"));
}

void check_classes(const Recipe& recipe, const std::string& folder, int64_t classes) {
  if (classes <= recipe.model.classes) return;
  throw InputError(fmt::format("{}: {} has {} classes, but model.classes is {}; set it to {}", recipe.path, folder, classes,
                               recipe.model.classes, classes));
}

/// Labels are places in the order of names, so that a class that one part lacks would move all others.
void check_same_classes(const std::string& training, const std::string& evaluation) {
  const std::vector<std::string> expected = image_classes(training), found = image_classes(evaluation);
  if (found == expected) return;
  const auto [first, other] = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
  throw InputError(fmt::format("{}: its classes are not those of {}: {} where that has {}; give both the same folders",
                               evaluation, training, other == found.end() ? "none" : "'" + *other + "'",
                               first == expected.end() ? "none" : "'" + *first + "'"));
}

/// Which shards a part is: those of a folder, or what the two keys name.
std::string shards_of_part(const DataRecipe& data, bool training) {
  if (!data.evaluation_path.empty()) return training ? data.path : data.evaluation_path;
  std::error_code ignored;
  if (!std::filesystem::is_directory(data.path, ignored)) {
    throw InputError(fmt::format(
        "data.path = '{}' is no folder with train and val in it: if it names the shards for training, name those for "
        "evaluation with data.evaluation_path",
        data.path));
  }
  return folder_of_part(data.path, training);
}

/// `set` is the path of a further set to evaluate on; empty: the data's own.
std::shared_ptr<ImageSource> open_image_source(const Recipe& recipe, const std::string& set, bool training) {
  const DataRecipe& data = recipe.data;
  const BadData bad = data.skip_bad ? BadData::skip : BadData::refuse;
  const std::string& path = set.empty() ? data.path : set;
  if (data.name == "cifar10" || data.name == "cifar100") {
    const CifarKind kind = data.name == "cifar10" ? CifarKind::cifar10 : CifarKind::cifar100;
    check_classes(recipe, path, kind == CifarKind::cifar10 ? 10 : 100);
    return open_cifar(path, kind, training, bad);
  }
  if (data.name == "image-folder") {
    const std::string folder = set.empty() ? folder_of_part(path, training) : set;
    if (!training) check_same_classes(folder_of_part(data.path, true), folder);
    check_classes(recipe, folder, static_cast<int64_t>(image_classes(folder).size()));
    return open_image_folder(folder, recipe.model.channels, bad);
  }
  if (data.name == "webdataset") {
    return open_web_dataset(open_shards(set.empty() ? shards_of_part(data, training) : set),
                            {.channels = recipe.model.channels, .classes = recipe.model.classes, .bad = bad});
  }
  ImageFiles files =
      mnist_files(path.empty() ? kFashionMnistFolder : path, training ? ImageSplit::training : ImageSplit::evaluation);
  files.classes = static_cast<int>(recipe.model.classes);
  files.bad = bad;
  return open_idx_images(files);
}

Datasets open_image_data(const Recipe& recipe) {
  const ModelRecipe& model = recipe.model;
  const DataRecipe& data = recipe.data;
  const auto open = [&](const std::string& set, bool training) {
    const PixelStatistics statistics = pixel_statistics(data.name);
    const bool grey = model.channels == 1 && statistics.mean.size() > 1;  // green, which is most of what grey is
    ImageSetOptions options{.channels = model.channels,
                            .height = model.image_size,
                            .width = model.image_size,
                            .mean = grey ? std::vector<double>{statistics.mean[1]} : statistics.mean,
                            .stddev = grey ? std::vector<double>{statistics.stddev[1]} : statistics.stddev,
                            .seed = recipe.run.seed};
    if (data.skip_bad) options.bad = training ? BadSample::replace : BadSample::ignore;
    if (training) options.augmentation = {data.crop_padding, data.flip, data.least_area};
    return open_image_set(open_image_source(recipe, set, training), options);
  };
  Datasets datasets{open("", true), open("", false)};
  if (data.mixup > 0.0) {
    datasets.training = mix_up(datasets.training, {.alpha = data.mixup, .classes = model.classes, .seed = recipe.run.seed});
  }
  for (const EvaluationRecipe& set : recipe.evaluations) datasets.others.push_back({set.name, open(set.path, false)});
  return datasets;
}

TokenType token_type(const DataRecipe& data) {
  if (data.name == "text") return TokenType::u8;
  return data.tokenizer == "uint32" ? TokenType::u32 : TokenType::u16;
}

/// The documents of JSON lines; null where the data is none.
std::shared_ptr<const TokenSource> json_rows(const Recipe& recipe, const std::string& path) {
  if (recipe.data.name != "jsonl") return nullptr;
  return open_json_lines({.path = path,
                          .column = recipe.data.column,
                          .vocabulary = recipe.model.vocabulary,
                          .bad = recipe.data.skip_bad ? BadData::skip : BadData::refuse});
}

/// The part of a source that `file` tells; `rows` where these are JSON lines.
std::shared_ptr<Dataset> open_token_part(const Recipe& recipe, const TokenFile& file, std::shared_ptr<const TokenSource> rows) {
  if (!rows) rows = std::make_shared<TokenStream>(file.path, file.type, file.vocabulary);
  if (recipe.data.pack == "documents") return open_packed_tokens(file, std::move(rows), recipe.data.document_end);
  return open_tokens(file, std::move(rows));
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
  std::shared_ptr<const TokenSource> rows = json_rows(recipe, file.path);  // which are looked for once, for both parts
  const auto open = [&] { return open_token_part(recipe, file, rows); };
  Datasets datasets;
  datasets.training = open();
  file.begin = split;
  file.end = 1.0;
  file.shift = false;
  datasets.evaluation = open();
  file.begin = 0.0;
  for (const EvaluationRecipe& set : recipe.evaluations) {
    file.path = set.path;
    rows = json_rows(recipe, file.path);
    datasets.others.push_back({set.name, open()});
  }
  return datasets;
}

Datasets open_parts(const Recipe& recipe) {
  std::vector<MixtureSource> training, evaluation;
  for (size_t i = 0; i < recipe.data.mix.size(); ++i) {
    const MixPart& part = recipe.data.mix[i];
    const std::string name = fmt::format("data.mix.{} ({})", i + 1, part.path.empty() ? part.name : part.path);
    const Datasets opened = open_data(recipe_of_part(recipe, i));
    training.push_back({opened.training, part.weight, name});
    evaluation.push_back({opened.evaluation, part.weight, name});
  }
  return {open_mixture(std::move(training), recipe.run.seed), join_datasets(std::move(evaluation))};
}

}  // namespace

Datasets open_data(const Recipe& recipe) {
  check_model_and_data(recipe);
  if (recipe.data.name == kMixName) return open_parts(recipe);
  return reads_tokens(recipe.model) ? open_token_data(recipe) : open_image_data(recipe);
}

}  // namespace weft
