// Tensors by name in one file, in the safetensors format, which Python's package of that name reads too.
//
// Layout: 8 bytes little-endian header length, a JSON header padded with spaces to a multiple of 8, then the values of all
// tensors without gaps, row-major, little-endian. Values stand in order of falling element size, then of name, so each is
// aligned; the same tensors give the same file, byte for byte. Memory: one tensor's contiguous CPU copy where it is not one.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/checkpoint/atomic_file.h"  // check_writable(), for those who save

namespace weft {

/// One tensor of a file.
struct NamedTensor {
  std::string name;   ///< unique in its file
  at::Tensor tensor;  ///< whole
};

/// Writes tensors of float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool and complex64, of any shape,
/// on any device. The file replaces an older one at once, or, on any failure, not at all. Throws InputError for a path that
/// cannot be written, a full disk, an undefined tensor, another type, and a name that is empty, used twice, "__metadata__" or
/// no UTF-8.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// A file that is read tensor by tensor.
class SafetensorsFile {
 public:
  /// Reads the header. Throws InputError as load_safetensors() does.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;  ///< the other is closed

  /// Names of the tensors, in order.
  std::vector<std::string> names() const;
  /// The shape of a tensor of a name that is there.
  const std::vector<int64_t>& shape(const std::string& name) const;
  /// What save_safetensors() was given beside them.
  const std::map<std::string, std::string>& metadata() const;
  /// The tensor of a name that is there, on the CPU. Throws InputError for one of a type that weft lacks (F8_E4M3, U16).
  at::Tensor read(const std::string& name) const;
  /// [numel], `numel` elements of such a tensor, flattened row-major, from `begin` on; reads no others.
  at::Tensor read(const std::string& name, int64_t begin, int64_t numel) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// All tensors of a file, on the CPU, in name order. Throws InputError for a missing, truncated or malformed file: whatever it
/// holds, nothing outside it is read and no more memory is asked for than it is long.
std::vector<NamedTensor> load_safetensors(const std::string& path);

/// The metadata that save_safetensors() was given. Reads the header alone.
std::map<std::string, std::string> load_safetensors_metadata(const std::string& path);

}  // namespace weft
