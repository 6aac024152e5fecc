#include "weft/recipe/build/open_array_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/data/arrays/array_set.h"
#include "weft/recipe/build/build_model.h"

namespace weft {

namespace {

/// The files of a model's inputs: inputs.npy, or of several each by its argument's name.
std::vector<ArrayFile> array_files(const MetaBatch& batch, const std::string& model) {
  const std::vector<std::string> names = batch.names.size() == 1 ? std::vector<std::string>{"inputs"} : batch.names;
  std::vector<ArrayFile> files;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    if (!std::all_of(names[i].begin(), names[i].end(), is_plain) || names[i] == "targets") {
      throw InputError(fmt::format("{}: no file of data.path can have the name of its input '{}'; export it with another",
                                   model, shortened(names[i])));
    }
    files.push_back({names[i], batch.inputs[i]});
  }
  return files;
}

}  // namespace

std::shared_ptr<Dataset> open_array_part(const Recipe& recipe, const std::string& set, bool training) {
  const DataRecipe& data = recipe.data;
  const std::string& own = training || data.evaluation_path.empty() ? data.path : data.evaluation_path;
  const double split = 1.0 - data.evaluation;
  const bool is_whole = !set.empty() || !data.evaluation_path.empty();
  const ArrayPart part = is_whole ? ArrayPart() : training ? ArrayPart{0.0, split} : ArrayPart{split, 1.0};
  const MetaBatch batch = meta_batch(recipe, 1);
  return open_arrays(set.empty() ? own : set, array_files(batch, recipe.model.path), batch.target, part);
}

}  // namespace weft
