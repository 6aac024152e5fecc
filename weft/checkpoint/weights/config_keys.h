// Tables for model_config.cpp: what the keys of Hugging Face's config.json mean for weft's models.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Key with the meaning of one of weft's options.
struct ConfigOption {
  const char* key;
  const char* option;
  const char* absent;  ///< default of transformers for an absent key; empty: nothing is compared
};

/// Key for which weft computes only one value, or several equivalent ones.
struct FixedConfigKey {
  const char* key;
  std::vector<const char*> values;  ///< as JSON; an absent key or null is also allowed
};

/// Keys of config.json for a model that weft has.
struct ConfigFamily {
  const char* name;                      ///< name of weft's model
  std::vector<const char*> model_types;  ///< values of "model_type" that compute the same
  std::vector<ConfigOption> same;
  std::vector<FixedConfigKey> fixed;
  std::vector<const char*> most_tokens;  ///< keys that limit sample length
};

/// Models whose config.json is read.
const std::vector<ConfigFamily>& config_families();
/// Keys by which a model of the same shape may compute something else, with the values that change nothing.
const std::vector<FixedConfigKey>& neutral_config_keys();
/// True if a key does not affect the computation: keys about the file, tokens, text generation, initial values, or dropout,
/// which evaluation lacks.
bool is_harmless_config_key(const std::string& key);

}  // namespace weft
