// The options of the model that weights are of (nn/model_option.h), as they stand beside them in a file: and what differs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/nn/model_option.h"

namespace weft {

inline constexpr const char* kModelEntry = "model";          ///< of a checkpoint's index
inline constexpr const char* kModelMetadata = "weft.model";  ///< of a safetensors file

/// {"name": "llama", "heads": "8", ...}.
std::string model_options_text(const std::vector<ModelOption>& options);
/// Those that a text tells. Throws InputError, which names `where`, for one that model_options_text() does not make.
std::vector<ModelOption> parse_model_options(const std::string& text, const std::string& where);

/// What save_safetensors() is given beside the weights of a model with these options.
std::map<std::string, std::string> weights_metadata(const std::vector<ModelOption>& options);

/// Whether an option only decides which tensors there are and their shapes (layers, classes, ...), which are compared anyway.
bool shows_in_tensors(const std::string& option);

/// What differs, a clause each: "model.heads is 4 there, 8 here". Nothing does where one of both tells nothing. Not compared
/// are `context`, which only bounds samples, and options that are new `here`. `without_shapes` leaves out what
/// shows_in_tensors().
std::vector<std::string> option_differences(const std::vector<ModelOption>& there, const std::vector<ModelOption>& here,
                                            bool without_shapes = false);

/// The value of an option; empty where there is none.
std::string option_value(const std::vector<ModelOption>& options, const std::string& name);

}  // namespace weft
