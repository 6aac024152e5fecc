// One digest of all weights, to check whether two runs ended with the same bits. It depends on names, shapes and values, not on
// a run's layout: ranks, shards, strides, order or storage type.
#pragma once

#include <string>
#include <vector>

#include "weft/checkpoint/safetensors.h"
#include "weft/checkpoint/sha256.h"

namespace weft {

/// Computes the digest of weights_sha256() tensor by tensor, for models that are never whole in one place.
class WeightsDigest {
 public:
  /// Adds a tensor; tensors come in name order. Throws InputError as weights_sha256() does, and for a name out of order.
  void add(const std::string& name, const at::Tensor& tensor);
  /// Finishes the digest and returns it as 64 lower-case hexadecimal digits.
  std::string hex();

 private:
  Sha256 hash_;
  std::string last_;
  bool is_first_ = true;
};

/// SHA-256, as 64 lower-case hexadecimal digits, over the tensors in name order (compared as bytes). Each tensor adds:
///   1. its name, then one zero byte;
///   2. its sizes in decimal, separated by commas ("64,3,3"; nothing for a scalar), then one zero byte;
///   3. its values as float32 (a complex value as real, then imaginary part), row-major, little-endian.
/// In Python: h.update(name.encode() + b"\0" + ",".join(map(str, t.shape)).encode() + b"\0" + t.astype("<f4").tobytes()).
/// Throws InputError for a name that is used twice or contains a zero byte, and for an undefined tensor.
std::string weights_sha256(const std::vector<NamedTensor>& tensors);

}  // namespace weft
