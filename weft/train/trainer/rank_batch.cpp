#include "weft/train/trainer/rank_batch.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/nn/host_values.h"
#include "weft/nn/upload.h"

namespace weft {
namespace {

/// Whether the tensor goes from the host to a device, without a wait if its memory is pinned.
bool is_uploaded(const at::Tensor& x, at::Device device) {
  return x.defined() && x.is_cpu() && at::accelerator::isAccelerator(device.type());
}

/// Copies tensors made in inference mode, because autograd cannot save them. LibTorch does not reuse pinned memory before the
/// copy is done; memory with gaps would be copied with a wait.
at::Tensor moved(const at::Tensor& x, at::Device device, Upload* beside) {
  if (x.is_inference() && x.device() == device) return x.clone();
  if (!is_uploaded(x, device)) return x.to(device);
  const at::Tensor whole = x.is_non_overlapping_and_dense() ? x : x.contiguous();
  return beside ? beside->copy(whole.pin_memory()) : upload(whole, device);
}

/// Inputs beside the first say how it is to be read, for which layers may need their values on the host. Pinned memory is the
/// batch's own; other memory may be written again.
void note_values(const at::Tensor& x, const at::Tensor& given) {
  if (!given.is_cpu() || given.scalar_type() != at::kLong) return;
  note_host_values(x, given.is_pinned() ? given : given.clone());
}

}  // namespace

MicroBatch to_device(Batch batch, at::Device device, const std::shared_ptr<Uploads>& uploads) {
  bool has_uploads = is_uploaded(batch.target, device);
  for (const at::Tensor& input : batch.inputs) has_uploads |= is_uploaded(input, device);
  std::shared_ptr<Upload> beside;
  if (uploads && has_uploads) beside = std::make_shared<Upload>(uploads);
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const at::Tensor given = std::exchange(batch.inputs[i], moved(batch.inputs[i], device, beside.get()));
    if (i > 0) note_values(batch.inputs[i], given);
  }
  if (batch.target.defined()) batch.target = moved(batch.target, device, beside.get());
  return {std::move(batch.inputs), std::move(batch.target), std::move(beside)};
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
