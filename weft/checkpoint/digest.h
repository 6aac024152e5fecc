// One number for all weights, to tell whether two runs ended with the same bits. It depends on names, shapes and values, not on
// how a run laid them out: ranks, shards, strides, order or type of storage.
#pragma once

#include <string>
#include <vector>

#include "weft/checkpoint/safetensors.h"
#include "weft/checkpoint/sha256.h"

namespace weft {

/// Makes the digest of weights_sha256() a tensor at a time, for models that are never whole in one place.
class WeightsDigest {
 public:
  /// Adds a tensor; tensors come in order of names. Throws InputError as weights_sha256() does, and for a name out of order.
  void add(const std::string& name, const at::Tensor& tensor);
  /// Ends the digest and returns it, as 64 lower-case hexadecimal digits.
  std::string hex();

 private:
  Sha256 hash_;
  std::string last_;
  bool is_first_ = true;
};

/// SHA-256, as 64 lower-case hexadecimal digits, over the tensors in order of their names (compared as bytes). Each adds:
///   1. its name, and one zero byte;
///   2. its sizes in decimal, separated by commas ("64,3,3"; nothing for a scalar), and one zero byte;
///   3. its values converted to float32 (of a complex one real and imaginary part), row-major, little-endian.
/// In Python: h.update(name.encode() + b"\0" + ",".join(map(str, t.shape)).encode() + b"\0" + t.astype("<f4").tobytes()).
/// Throws InputError for a name used twice or holding a zero byte, and for an undefined tensor.
std::string weights_sha256(const std::vector<NamedTensor>& tensors);

}  // namespace weft
