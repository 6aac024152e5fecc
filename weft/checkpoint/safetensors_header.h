// The header of a safetensors file: what stands where, as JSON text and back. No tensors are touched.
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
  int64_t begin = 0, end = 0;   ///< bytes after the header
  std::string other_type = {};  ///< the format's name of one that weft does not read; empty: it is `type`
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// The format's name of a type ("F32"); nullptr for a type it lacks.
const char* safetensors_type(at::ScalarType type);
/// The type that the format calls so; none for a name it lacks.
std::optional<at::ScalarType> type_of_safetensors(std::string_view name);

/// The header as JSON padded to a multiple of 8 bytes. `path` is for errors.
std::string write_header(const SafetensorsHeader& header, const std::string& path);

/// The header that `json` holds, its tensors in name order. Checks everything: JSON, fields, types, shapes against sizes, and
/// that the tensors fill `data_bytes` without gap or overlap. Of types that weft lacks the sizes in bytes are believed.
SafetensorsHeader read_header(const std::string& json, int64_t data_bytes, const std::string& path);

}  // namespace weft
