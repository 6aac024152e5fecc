// Compares Hugging Face's config.json, found next to weights, with the options of the model that loads them. The config holds
// what tensor shapes do not show: heads, rotary angles, scaling.
#pragma once

#include <string>
#include <vector>

#include "weft/nn/model_option.h"

namespace weft {

/// Result of a comparison.
struct ConfigComparison {
  std::vector<std::string> differences = {};  ///< clauses, one per difference in computation, with what to set if possible
  std::vector<std::string> notes = {};        ///< what could not be compared
};

/// Compares the config with `model`, Model::options. For gpt and llama every key is checked: keys that do not affect the
/// computation (dtype, token ids, ...) pass, unknown ones are listed in the notes. For other models a note says that the config
/// was not read. An absent key counts as transformers' default; absent sizes are left to the tensors. Throws FileError for a
/// file that is not a JSON object. `without_shapes` skips options for which shows_in_tensors() is true.
ConfigComparison compare_config(const std::string& path, const std::vector<ModelOption>& model, bool without_shapes = false);

}  // namespace weft
