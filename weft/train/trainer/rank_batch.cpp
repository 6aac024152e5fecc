#include "weft/train/trainer/rank_batch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/hash.h"

namespace weft {
namespace {

/// Copies tensors made in inference mode, because autograd cannot save them.
at::Tensor moved(const at::Tensor& x, at::Device device) {
  if (x.is_inference() && x.device() == device) return x.clone();
  // LibTorch does not reuse pinned memory before the copy is done.
  const bool in_background = !device.is_cpu() && x.is_cpu() && x.is_pinned();
  return x.to(device, x.scalar_type(), in_background);
}

}  // namespace

MicroBatch to_device(Batch batch, at::Device device) {
  for (at::Tensor& input : batch.inputs) input = moved(input, device);
  return {std::move(batch.inputs), batch.target.defined() ? moved(batch.target, device) : batch.target};
}

uint64_t hash_of(const std::vector<at::Tensor>& tensors) {
  uint64_t hash = kFnvBasis;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    hash = fnv1a({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, hash);
  }
  return hash;
}

void SampleCheck::record(const Batch& batch) { recorded_ = {hash_of(batch.inputs), hash_of({batch.target})}; }

void SampleCheck::compare(const Group& group, AxisSet axes, at::Device device) const {
  constexpr int64_t kNumbers = 3;  // whether there is a batch, and its hashes
  if (group.size() == 1) return;
  const Hashes hashes = recorded_.value_or(Hashes{0, 0});
  const at::Tensor own =
      at::tensor({int64_t{recorded_.has_value()}, static_cast<int64_t>(hashes.inputs), static_cast<int64_t>(hashes.target)},
                 at::kLong)
          .to(device);
  const at::Tensor all = at::empty({group.size() * kNumbers}, own.options());
  group.all_gather(all, own, "comparing samples").wait();
  const at::Tensor on_host = all.cpu();
  const auto* numbers = on_host.const_data_ptr<int64_t>();
  int first = -1;
  for (int place = 0; place < group.size(); ++place) {
    const int64_t* of_place = numbers + place * kNumbers;
    if (of_place[0] == 0) continue;
    if (first < 0) first = place;
    const int64_t* expected = numbers + first * kNumbers;
    const bool inputs = of_place[1] != expected[1], target = of_place[2] != expected[2];
    if (!inputs && !target) continue;
    throw InputError(fmt::format(
        "trainer: index {} on axis '{}' got different samples from index {}, in {}; ranks that differ only on it must get the "
        "same samples: make loaders with Trainer::loader_options(), or split batches by the dp and shard axes, and key a data "
        "set's random draws by seed and sample index, which all ranks share",
        place, name(axes), first,
        inputs && target ? "inputs and targets"
        : inputs         ? "inputs"
                         : "targets"));
  }
}

}  // namespace weft
