// SharedRotation: the table of rotary angles that all layers of a model share.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <vector>

#include "weft/comm/call/shard_range.h"
#include "weft/nn/functional/rotary.h"

namespace weft {

/// A model's rotation: layers that ask for the same one while a graph still holds it share its tensors. Used by one thread at
/// a time.
class SharedRotation {
 public:
  /// Of heads of this width, with the base `theta`.
  SharedRotation(int64_t head_width, double theta) : head_width_(head_width), theta_(theta) {}
  /// The rotation at these positions, as rotation_at() gives it.
  Rotation at(const std::vector<ShardRange>& positions, at::Device device, at::ScalarType dtype);

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  int64_t head_width_;
  double theta_;
  std::vector<ShardRange> positions_;
  std::optional<Weak> cos_, sin_;
};

}  // namespace weft
