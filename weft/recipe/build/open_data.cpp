#include "weft/recipe/build/open_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "weft/base/error.h"
#include "weft/data/images/cifar.h"
#include "weft/data/images/grouped_images.h"
#include "weft/data/images/idx_images.h"
#include "weft/data/images/image_folder.h"
#include "weft/data/images/image_set.h"
#include "weft/data/images/mixup.h"
#include "weft/data/images/parquet_images.h"
#include "weft/data/images/web_dataset.h"
#include "weft/data/mixture.h"
#include "weft/data/tokens/json_lines.h"
#include "weft/data/tokens/packed_windows.h"
#include "weft/data/tokens/parquet_tokens.h"
#include "weft/data/tokens/token_groups.h"
#include "weft/data/tokens/token_stream.h"
#include "weft/data/tokens/windows.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/data_checks.h"
#include "weft/recipe/build/open_array_data.h"
#include "weft/recipe/build/open_shards.h"
#include "weft/recipe/data_names.h"

namespace weft {

namespace {

constexpr const char* kParquetEnding = ".parquet";

/// Per-channel mean and standard deviation of a set's pixels: its customary values.
struct PixelStatistics {
  std::vector<double> mean, stddev;
};

PixelStatistics pixel_statistics(const std::string& name) {
  if (name == "cifar10") return {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  if (name == "cifar100") return {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}};
  if (named_data(name).channels == 0) return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};  // others: ImageNet's
  return {{0.2860}, {0.3530}};                                                                // Fashion-MNIST's
}

/// The folder of a part: the first of its usual names that exists.
std::string folder_of_part(const std::string& folder, bool training) {
  const std::vector<std::string> names =
      training ? std::vector<std::string>{"train"} : std::vector<std::string>{"val", "validation", "test", "evaluation"};
  std::error_code ignored;
  for (const std::string& name : names) {
    const std::string part = (std::filesystem::path(folder) / name).string();
    if (std::filesystem::is_directory(part, ignored)) return part;
  }
  if (!std::filesystem::is_directory(folder, ignored))
    throw InputError(fmt::format("{}: no such folder; check data.path", folder));
  throw InputError(fmt::format("{}: it has no folder '{}' for {}", folder, fmt::join(names, "' or '"),
                               training ? "training" : "evaluation"));
}

void check_classes(const Recipe& recipe, const std::string& folder, int64_t classes) {
  if (classes <= recipe.model.classes) return;
  throw InputError(fmt::format("{}: {} has {} classes, but model.classes is {}; set it to {}", recipe.path, folder, classes,
                               recipe.model.classes, classes));
}

/// Labels are indices into the sorted names: a class missing from one part would shift all later labels.
void check_same_classes(const std::string& training, const std::string& evaluation) {
  const std::vector<std::string> expected = image_classes(training), found = image_classes(evaluation);
  if (found == expected) return;
  const auto [first, other] = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
  throw InputError(fmt::format("{}: its classes differ from {}: {} instead of {}; give both the same folders", evaluation,
                               training, other == found.end() ? "none" : "'" + *other + "'",
                               first == expected.end() ? "none" : "'" + *first + "'"));
}

/// The shards of a part: from a folder, or as the two keys name them.
std::string shards_of_part(const DataRecipe& data, bool training) {
  if (!data.evaluation_path.empty()) return training ? data.path : data.evaluation_path;
  std::error_code ignored;
  if (!std::filesystem::is_directory(data.path, ignored)) {
    throw InputError(
        fmt::format("data.path = '{}' is not a folder with train and val in it: if it names the training shards, name the "
                    "evaluation shards with data.evaluation_path",
                    data.path));
  }
  return folder_of_part(data.path, training);
}

int64_t window_bytes(const DataRecipe& data) {
  constexpr double kMebibyte = 1 << 20;
  return static_cast<int64_t>(data.shuffle_mb * kMebibyte);
}

/// Cache for groups: training keeps a window and the next one; evaluation reads its groups in order.
int64_t cache_bytes(const DataRecipe& data, bool training) { return training ? 2 * window_bytes(data) : 0; }

/// `set` is the path of a further evaluation set; empty: the data's own.
std::shared_ptr<ImageSource> open_image_source(const Recipe& recipe, const std::string& set, bool training) {
  const DataRecipe& data = recipe.data;
  const BadData bad = data.skip_bad ? BadData::skip : BadData::refuse;
  const ImageDecoding decoding{.channels = recipe.model.channels,
                               .transparency = data.alpha == "black" ? Transparency::on_black : Transparency::dropped,
                               .upright = data.exif_rotation};
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
    return open_image_folder(folder, decoding, bad);
  }
  const auto shards = [&](const char* ending) {
    return open_shards(set.empty() ? shards_of_part(data, training) : set, ending);
  };
  if (data.name == "webdataset") {
    return open_web_dataset(shards(".tar"), {.decoding = decoding, .classes = recipe.model.classes, .bad = bad});
  }
  if (data.name == kParquetName) {
    return open_parquet_images(shards(kParquetEnding), {.column = data.column.empty() ? ParquetImages().column : data.column,
                                                        .label_column = data.label_column,
                                                        .decoding = decoding,
                                                        .classes = recipe.model.classes,
                                                        .bad = bad,
                                                        .cache_bytes = cache_bytes(data, training)});
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
    const bool grey = model.channels == 1 && statistics.mean.size() > 1;  // green dominates grey
    ImageSetOptions options{.channels = model.channels,
                            .height = model.image_size,
                            .width = model.image_size,
                            .mean = grey ? std::vector<double>{statistics.mean[1]} : statistics.mean,
                            .stddev = grey ? std::vector<double>{statistics.stddev[1]} : statistics.stddev,
                            .seed = recipe.run.seed};
    if (data.skip_bad) options.bad = training ? BadSample::replace : BadSample::ignore;
    if (training) options.augmentation = {data.crop_padding, data.flip, data.least_area};
    const std::shared_ptr<const ImageSource> source = open_image_source(recipe, set, training);
    std::shared_ptr<Dataset> images = open_image_set(source, options);
    if (!training || source->grouped() == nullptr) return images;
    return in_order_of_groups(images, source, {.seed = recipe.run.seed, .window_bytes = window_bytes(data)});
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
  if (data.tokenizer == "uint16") return TokenType::u16;
  return data.tokenizer == "uint32" ? TokenType::u32 : TokenType::as_file;
}

/// The documents, if the data has them; null for a stream of tokens.
std::shared_ptr<const TokenGroups> open_documents(const Recipe& recipe, const std::string& path) {
  const DataRecipe& data = recipe.data;
  const BadData bad = data.skip_bad ? BadData::skip : BadData::refuse;
  const std::string column = data.column.empty() ? JsonLines().column : data.column;
  const int64_t vocabulary = recipe.model.vocabulary;
  if (data.name == kJsonName) {
    return open_json_lines(open_shards(path, ".jsonl"), {.column = column, .vocabulary = vocabulary, .bad = bad});
  }
  if (data.name == kParquetName) {
    return open_parquet_tokens(open_shards(path, kParquetEnding), {.column = column, .vocabulary = vocabulary, .bad = bad});
  }
  return nullptr;
}

/// The part of a source that `file` names, from `documents` where the data has them in groups.
std::shared_ptr<Dataset> open_token_part(const Recipe& recipe, const TokenFile& file,
                                         const std::shared_ptr<const TokenGroups>& documents) {
  const bool packs = recipe.data.pack == "documents";
  std::shared_ptr<const TokenSource> source;
  if (documents) {
    source = token_source(documents, cache_bytes(recipe.data, file.shift || packs));
  } else {
    source = std::make_shared<TokenStream>(file.path, file.type, file.vocabulary);
  }
  return packs ? open_packed_tokens(file, std::move(source), recipe.data.document_end) : open_tokens(file, std::move(source));
}

Datasets open_token_data(const Recipe& recipe) {
  const DataRecipe& data = recipe.data;
  TokenFile file{.path = data.path.empty() ? kDefaultTextFolder : data.path,
                 .type = token_type(data),
                 .vocabulary = recipe.model.vocabulary,
                 .context = recipe.model.context,
                 .seed = recipe.run.seed,
                 .mix_bytes = window_bytes(data)};
  const auto open = [&](const std::shared_ptr<const TokenGroups>& documents, double begin, double end, bool training) {
    file.begin = begin;
    file.end = end;
    file.shift = training;
    return open_token_part(recipe, file, documents);
  };
  const bool has_own_files = !data.evaluation_path.empty();
  const double split = has_own_files ? 1.0 : 1.0 - data.evaluation;
  std::shared_ptr<const TokenGroups> documents = open_documents(recipe, file.path);  // once for both parts
  Datasets datasets;
  datasets.training = open(documents, 0.0, split, true);
  if (has_own_files) {
    file.path = data.evaluation_path;
    documents = open_documents(recipe, file.path);
  }
  datasets.evaluation = open(documents, has_own_files ? 0.0 : split, 1.0, false);
  for (const EvaluationRecipe& set : recipe.evaluations) {
    file.path = set.path;
    datasets.others.push_back({set.name, open(open_documents(recipe, file.path), 0.0, 1.0, false)});
  }
  return datasets;
}

Datasets open_array_data(const Recipe& recipe) {
  Datasets datasets{open_array_part(recipe, "", true), open_array_part(recipe, "", false)};
  for (const EvaluationRecipe& set : recipe.evaluations) {
    datasets.others.push_back({set.name, open_array_part(recipe, set.path, false)});
  }
  return datasets;
}

/// A label must mean the same class in every part.
void check_classes_of_parts(const std::vector<MixPart>& parts) {
  std::string first;
  for (const MixPart& part : parts) {
    if (part.name != "image-folder") continue;
    const std::string folder = folder_of_part(part.path, true);
    if (first.empty()) first = folder;
    check_same_classes(first, folder);
  }
}

Datasets open_parts(const Recipe& recipe) {
  check_classes_of_parts(recipe.data.mix);
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

/// The tokens at a path, for inspecting all of them.
OpenedSet open_token_source(Recipe recipe, const std::string& path) {
  recipe.data.skip_bad = true;
  if (const std::shared_ptr<const TokenGroups> documents = open_documents(recipe, path)) {
    return {.tokens = token_source(documents, 0)};
  }
  constexpr int64_t kMostIds = int64_t{1} << 32;
  const auto open = [&](int64_t ids) { return std::make_shared<TokenStream>(path, token_type(recipe.data), ids); };
  return {.tokens = open(kMostIds), .strict = open(recipe.model.vocabulary)};
}

OpenedSet open_images_of(Recipe recipe, const std::string& set, bool training) {
  recipe.data.skip_bad = true;
  OpenedSet opened{.images = open_image_source(recipe, set, training)};
  if (recipe.data.name == "image-folder") {
    opened.classes = image_classes(set.empty() ? folder_of_part(recipe.data.path, training) : set);
  }
  return opened;
}

std::vector<DataSet> sets_of_mixture(const Recipe& recipe) {
  std::vector<DataSet> sets;
  for (size_t i = 0; i < recipe.data.mix.size(); ++i) {
    const MixPart& part = recipe.data.mix[i];
    for (DataSet& set : data_sets(recipe_of_part(recipe, i))) {
      set.name = fmt::format("data.mix.{} ({}), {}", i + 1, part.path.empty() ? part.name : part.path, set.name);
      sets.push_back(std::move(set));
    }
  }
  return sets;
}

}  // namespace

std::vector<DataSet> data_sets(const Recipe& recipe) {
  const DataRecipe& data = recipe.data;
  if (data.name == kMixName) return sets_of_mixture(recipe);
  std::vector<DataSet> sets;
  if (reads_arrays(recipe.model)) {
    const auto add = [&](const std::string& name, const std::string& set, bool training) {
      sets.push_back({name, [=] { return OpenedSet{.samples = open_array_part(recipe, set, training)}; }});
    };
    add("training", "", true);
    add("evaluation", "", false);
    for (const EvaluationRecipe& set : recipe.evaluations) add(set.name, set.path, false);
    return sets;
  }
  if (!reads_tokens(recipe.model)) {
    for (const bool training : {true, false}) {
      sets.push_back({training ? "training" : "evaluation", [=] { return open_images_of(recipe, "", training); }});
    }
    for (const EvaluationRecipe& set : recipe.evaluations) {
      sets.push_back({set.name, [=, path = set.path] { return open_images_of(recipe, path, false); }});
    }
    return sets;
  }
  const auto add = [&](const std::string& name, const std::string& path) {
    sets.push_back({name, [=] { return open_token_source(recipe, path); }});
  };
  add(data.evaluation_path.empty() ? "training and evaluation" : "training",
      data.path.empty() ? kDefaultTextFolder : data.path);
  if (!data.evaluation_path.empty()) add("evaluation", data.evaluation_path);
  for (const EvaluationRecipe& set : recipe.evaluations) add(set.name, set.path);
  return sets;
}

Datasets open_data(const Recipe& recipe) {
  check_model_and_data(recipe);
  if (recipe.data.name == kMixName) return open_parts(recipe);
  if (reads_arrays(recipe.model)) return open_array_data(recipe);
  return reads_tokens(recipe.model) ? open_token_data(recipe) : open_image_data(recipe);
}

}  // namespace weft
