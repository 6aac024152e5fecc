// Named tensors in one file, in the safetensors format of the Python package.
//
// Layout: 8 bytes little-endian header length, a JSON header padded with spaces to a multiple of 8, then the values of all
// tensors without gaps, row-major, little-endian. Values are ordered by falling element size, then by name, so each is aligned;
// the same tensors give the same file, byte for byte. Memory: a contiguous CPU copy of one tensor, if it is not one already.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/checkpoint/atomic_file.h"  // check_writable(), for those who save

namespace weft {

/// One named tensor.
struct NamedTensor {
  std::string name;   ///< unique in its file
  at::Tensor tensor;  ///< whole
};

/// Writes tensors of float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool and complex64, of any shape,
/// on any device. Replaces an older file atomically; on any failure the old one stays. Throws InputError for a path that cannot
/// be written, a full disk, an undefined tensor, another type, and a name that is empty, used twice, "__metadata__" or not
/// UTF-8.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// File that is read tensor by tensor.
class SafetensorsFile {
 public:
  /// Reads the header. Throws InputError as load_safetensors() does.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;  ///< leaves the source closed

  /// Names of the tensors, in order.
  std::vector<std::string> names() const;
  /// Shape of the named tensor, which must exist.
  const std::vector<int64_t>& shape(const std::string& name) const;
  /// Metadata given to save_safetensors().
  const std::map<std::string, std::string>& metadata() const;
  /// Returns the named tensor, which must exist, on the CPU. Throws InputError for a type that weft lacks (F8_E4M3, U16).
  at::Tensor read(const std::string& name) const;
  /// Returns [numel], `numel` elements of that tensor, flattened row-major, starting at `begin`. Reads no other elements.
  at::Tensor read(const std::string& name, int64_t begin, int64_t numel) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns all tensors of a file, on the CPU, in name order. Throws InputError for a missing, truncated or malformed file:
/// whatever its content, nothing outside it is read and no allocation exceeds its length.
std::vector<NamedTensor> load_safetensors(const std::string& path);

/// Returns the metadata given to save_safetensors(). Reads only the header.
std::map<std::string, std::string> load_safetensors_metadata(const std::string& path);

}  // namespace weft
