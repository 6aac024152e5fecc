#include "weft/nn/layers/shared_rotation.h"

#include <algorithm>
#include <utility>

#include "weft/nn/sequence/zigzag.h"

namespace weft {

Rotation SharedRotation::at(const std::vector<ShardRange>& positions, at::Device device, at::ScalarType dtype) {
  const auto held = [](const std::optional<Weak>& weak) {
    auto impl = weak ? weak->lock() : c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>();
    return impl ? at::Tensor(std::move(impl)) : at::Tensor();
  };
  const auto is_alike = [](const ShardRange& a, const ShardRange& b) { return a.begin == b.begin && a.end == b.end; };
  const Rotation there{held(cos_), held(sin_)};
  if (there.cos.defined() && there.sin.defined() && there.cos.device() == device && there.cos.scalar_type() == dtype &&
      std::equal(positions.begin(), positions.end(), positions_.begin(), positions_.end(), is_alike)) {
    return there;
  }
  Rotation made = rotation_at(shard_positions(positions, device), head_width_, theta_, dtype);
  positions_ = positions;
  cos_ = Weak(made.cos.getIntrusivePtr());
  sin_ = Weak(made.sin.getIntrusivePtr());
  return made;
}

}  // namespace weft
