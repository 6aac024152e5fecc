// What data a recipe may name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The kind that is made of others.
inline constexpr std::string_view kMixName = "mix";
/// The kinds whose samples are columns.
inline constexpr std::string_view kParquetName = "parquet", kJsonName = "jsonl";

/// A kind of data.
struct NamedData {
  std::string_view name;     ///< as recipes have it
  bool is_tokens = false;    ///< for models that read tokens; of a mix its parts tell
  bool is_images = false;    ///< for models that read images
  int64_t channels = 0;      ///< that images have; 0: as many as are wanted
  bool needs_path = false;   ///< it has no default place
  bool is_files = false;     ///< files that a pattern or URL may name, with data.evaluation_path
  bool has_columns = false;  ///< of which data.column is one
};

/// The names of all kinds, as recipes have them.
std::vector<std::string> data_names();
/// The kind with that name. Throws InputError where there is none.
const NamedData& named_data(const std::string& name);

}  // namespace weft
