#include "weft/optim/clip.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/optim/squares.h"

namespace weft {

namespace {

/// Elements converted or added at a time; more on a GPU, where the host waits for each chunk. The sum is the same.
int64_t chunk_on(TargetDevice device) { return int64_t{1} << (device == TargetDevice::cpu ? 18 : 22); }
int64_t chunk_of(const at::Tensor& gradients) { return chunk_on(gradients.is_cpu() ? TargetDevice::cpu : TargetDevice::gpu); }

/// Adds elements [begin, end) of `gradients`, as a flat range that starts at element 0.
void add_range(const at::Tensor& gradients, int64_t begin, int64_t end, ExactSum& sum) {
  const int64_t chunk = chunk_of(gradients);
  for (; begin < end; begin += chunk) {
    add_squares(gradients.narrow(0, begin, std::min(chunk, end - begin)).to(at::kFloat), begin, sum);
  }
}

/// The same for gradients whose uses have separate sums.
void add_range_of_uses(const FlatBlock& flat, int64_t begin, int64_t end, ExactSum& sum) {
  const int64_t chunk = chunk_of(flat.gradients);
  for (; begin < end; begin += chunk) {
    const int64_t count = std::min(chunk, end - begin);
    at::Tensor whole = flat.gradients.narrow(0, begin, count).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    for (const UseSum& use : flat.uses) whole.add_(use.gradients.narrow(0, begin, count));
    add_squares(whole, begin, sum);
  }
}

bool counts(const FlatModel& model, const GroupRange& group) {
  return group.group != ParamGroup::statistic && (group.split || model.options().counts_unsplit);
}

}  // namespace

void add_squares(FlatModel& model, ExactSum& sum) {
  c10::NoGradGuard no_grad;
  for (int b = 0; b < model.num_blocks(); ++b) {
    if (model.is_tied_copy(b)) continue;  // counted by its first holder
    const FlatBlock& flat = model.flat(b);
    for (const GroupRange& group : flat.groups) {
      if (!counts(model, group)) continue;
      const GroupRange own = flat.own(group);
      add_range(flat.owned_gradients, own.begin, own.end, sum);
    }
  }
}

void add_block_squares(FlatModel& model, int block, ExactSum& sum) {
  c10::NoGradGuard no_grad;
  const FlatBlock& flat = model.flat(block);
  for (const GroupRange& group : flat.groups) {
    if (!counts(model, group)) continue;
    flat.uses.empty() ? add_range(flat.gradients, group.begin, group.end, sum)
                      : add_range_of_uses(flat, group.begin, group.end, sum);
  }
}

int64_t squares_bytes(TargetDevice device, int64_t numel, int gradient_bytes) {
  constexpr int kFloatSize = 4;
  const int64_t chunk = std::min(numel, chunk_on(device)), widened = gradient_bytes < kFloatSize ? chunk * kFloatSize : 0;
  return widened + (device == TargetDevice::cpu ? 0 : device_squares_bytes(chunk));
}

double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1.0; }

}  // namespace weft
