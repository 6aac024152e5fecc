// The kinds of data that a recipe may name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The kind that mixes others.
inline constexpr std::string_view kMixName = "mix";
/// The kinds whose samples are columns.
inline constexpr std::string_view kParquetName = "parquet", kJsonName = "jsonl";
/// The kind of samples of any shape.
inline constexpr std::string_view kArraysName = "arrays";

/// A kind of data.
struct NamedData {
  std::string_view name;     ///< as spelled in recipes
  bool is_tokens = false;    ///< for models that read tokens; for a mix its parts decide
  bool is_images = false;    ///< for models that read images
  bool is_arrays = false;    ///< for models that read arrays
  int64_t channels = 0;      ///< channels per image; 0: any number
  bool needs_path = false;   ///< no default path
  bool is_files = false;     ///< reads data.evaluation_path
  bool has_columns = false;  ///< samples are columns; data.column names one
};

/// Names of all kinds, as spelled in recipes.
std::vector<std::string> data_names();
/// Returns the kind with that name. Throws InputError for an unknown name.
const NamedData& named_data(const std::string& name);

}  // namespace weft
