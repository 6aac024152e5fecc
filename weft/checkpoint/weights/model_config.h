// Hugging Face's config.json, which lies beside weights and says what their shapes do not show: heads, rotary angles, what is
// scaled. Compared with the options of the model that is to take the weights.
#pragma once

#include <string>
#include <vector>

#include "weft/nn/model_option.h"

namespace weft {

/// What came of comparing.
struct ConfigComparison {
  std::vector<std::string> differences = {};  ///< each changes what is computed; a clause that says what to set, where one can
  std::vector<std::string> notes = {};        ///< what could not be compared
};

/// Compares the config with `model`, Model::options. Of gpt and llama every key is: those that compute nothing (dtype, ids of
/// tokens, ...) pass, and one that is not known is told in the notes. For other models the notes say that it was not read.
/// A key that is left out counts as what transformers takes for it; a size is left to the tensors then. Throws FileError for a
/// file that is no JSON object. `without_shapes` leaves out what shows_in_tensors().
ConfigComparison compare_config(const std::string& path, const std::vector<ModelOption>& model, bool without_shapes = false);

}  // namespace weft
