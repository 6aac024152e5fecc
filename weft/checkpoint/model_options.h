// Model options (nn/model_option.h) as saved with weights, and comparison of two sets.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/nn/model_option.h"

namespace weft {

inline constexpr const char* kModelEntry = "model";          ///< entry in a checkpoint's index
inline constexpr const char* kModelMetadata = "weft.model";  ///< metadata key in a safetensors file

/// Returns JSON: {"name": "llama", "heads": "8", ...}.
std::string model_options_text(const std::vector<ModelOption>& options);
/// Parses that JSON. Throws InputError, naming `where`, for text that model_options_text() does not produce.
std::vector<ModelOption> parse_model_options(const std::string& text, const std::string& where);

/// Returns the metadata to pass to save_safetensors() with the weights of a model that has these options.
std::map<std::string, std::string> weights_metadata(const std::vector<ModelOption>& options);

/// True if an option only determines the number and shapes of tensors (layers, classes, ...), which are compared anyway.
bool shows_in_tensors(const std::string& option);

/// Returns one clause per difference: "model.heads is 4 there, 8 here"; no clauses if either side is empty. Skips `context`,
/// which only limits sample length, and options that only `here` has; with `without_shapes`, also options for which
/// shows_in_tensors() is true.
std::vector<std::string> option_differences(const std::vector<ModelOption>& there, const std::vector<ModelOption>& here,
                                            bool without_shapes = false);

/// Returns the value of an option; empty if absent.
std::string option_value(const std::vector<ModelOption>& options, const std::string& name);

}  // namespace weft
