// Header of a safetensors file: converts names, types, shapes and offsets to JSON and back. Touches no tensors.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct StoredTensor {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;   ///< byte range, counted from the end of the header
  std::string other_type = {};  ///< the format's name of a type that weft lacks; empty if `type` holds the type
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Returns the format's name of a type ("F32"); nullptr if the format lacks it.
const char* safetensors_type(at::ScalarType type);
/// Returns the type with that name in the format; nullopt for an unknown name.
std::optional<at::ScalarType> type_of_safetensors(std::string_view name);

/// Returns the header as JSON padded to a multiple of 8 bytes. `path` is for errors.
std::string write_header(const SafetensorsHeader& header, const std::string& path);

/// Parses the header in `json`, its tensors in name order. Checks everything: JSON, fields, types, shapes against sizes, and
/// that the tensors fill `data_bytes` without gap or overlap. Byte sizes of types that weft lacks are not checked.
SafetensorsHeader read_header(const std::string& json, int64_t data_bytes, const std::string& path);

}  // namespace weft
