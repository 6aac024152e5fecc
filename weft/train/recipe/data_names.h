// What data a recipe may name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The kind that is made of others.
inline constexpr std::string_view kMixName = "mix";

/// A kind of data.
struct NamedData {
  std::string_view name;  ///< as recipes have it
  bool is_tokens;         ///< or images; of a mix its parts tell
  int64_t channels;       ///< that images have; 0: as many as are wanted
  bool needs_path;        ///< it has no default place
};

/// The names of all kinds, as recipes have them.
std::vector<std::string> data_names();
/// The kind with that name. Throws InputError where there is none.
const NamedData& named_data(const std::string& name);

}  // namespace weft
