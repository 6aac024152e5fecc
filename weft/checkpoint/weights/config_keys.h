// What the keys of Hugging Face's config.json mean to weft's models: tables alone, which model_config.cpp goes by.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// A key that says what an option of weft's says.
struct ConfigOption {
  const char* key;
  const char* option;
  const char* absent;  ///< what transformers takes for one that is left out; empty: nothing is compared
};

/// A key of which weft computes one value, or some that come to the same.
struct FixedConfigKey {
  const char* key;
  std::vector<const char*> values;  ///< as JSON; one that is left out, or null, is one of them
};

/// What config.json says of a model that weft has.
struct ConfigFamily {
  const char* name;                      ///< of weft's model
  std::vector<const char*> model_types;  ///< that compute the same
  std::vector<ConfigOption> same;
  std::vector<FixedConfigKey> fixed;
  std::vector<const char*> most_tokens;  ///< keys of the longest sample
};

/// The models whose config.json is read.
const std::vector<ConfigFamily>& config_families();
/// Keys with which other models of this shape compute something else; the values are those with which they do not.
const std::vector<FixedConfigKey>& neutral_config_keys();
/// Whether a key computes nothing: those that tell of the file, of tokens, of text made with the model, of its first values, or
/// of dropout, which evaluation lacks.
bool is_harmless_config_key(const std::string& key);

}  // namespace weft
