#include "weft/train/run/same_batch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/core.h>

#include <string_view>

#include "weft/base/error.h"
#include "weft/base/hash.h"

namespace weft {

namespace {

uint64_t hash_of(const Batch& batch) {
  uint64_t hash = kFnvBasis;
  const auto add = [&hash](const at::Tensor& tensor) {
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    hash = fnv1a({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, hash);
  };
  for (const at::Tensor& input : batch.inputs) add(input);
  add(batch.target);
  return hash;
}

}  // namespace

void check_same_batch(const Batch& batch, const Group& group, AxisSet axes, at::Device device) {
  if (group.size() == 1) return;
  const at::TensorOptions number = at::TensorOptions(at::kLong).device(device);
  const at::Tensor own = at::full({1}, static_cast<int64_t>(hash_of(batch)), number), all = at::empty({group.size()}, number);
  group.all_gather(all, own, "do all have the same samples").wait();
  const at::Tensor hashes = all.cpu();
  const auto* hash = hashes.const_data_ptr<int64_t>();
  for (int place = 1; place < group.size(); ++place) {
    if (hash[place] == hash[0]) continue;
    throw InputError(fmt::format(
        "trainer: place {} on axis '{}' was given other samples than place 0; ranks that differ on it alone train on "
        "the same: make loaders with Trainer::loader_options(), or cut batches by the dp and shard axes",
        place, name(axes)));
  }
}

}  // namespace weft
