#include "weft/optim/clip.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

#include "weft/nn/device_kernels/device_kernels.h"
#include "weft/optim/squares.h"

namespace weft {

namespace {

/// Elements converted or added at a time.
constexpr int64_t kChunk = int64_t{1} << 18;

/// Calls add(begin, chunk) for the chunks of elements [begin, end) of flat gradients.
template <class Add>
void in_chunks(const at::Tensor& gradients, int64_t begin, int64_t end, const Add& add) {
  for (; begin < end; begin += kChunk) add(begin, gradients.narrow(0, begin, std::min(kChunk, end - begin)));
}

/// Ranges whose squares are added in one launch on a device.
class Squares {
 public:
  explicit Squares(const at::Tensor& words) : words_(words) {}

  /// Adds elements [begin, end) of `gradients`, as a flat range that starts at element 0.
  void add(const at::Tensor& gradients, int64_t begin, int64_t end) {
    if (gradients.is_cpu()) {
      in_chunks(gradients, begin, end,
                [&](int64_t place, const at::Tensor& chunk) { add_squares(chunk.to(at::kFloat), place, words_); });
    } else if (begin < end) {
      ranges_.push_back(gradients.narrow(0, begin, end - begin));
      places_.push_back(begin);
    }
  }
  /// The same for gradients whose uses have separate sums.
  void add_with_uses(const FlatBlock& flat, int64_t begin, int64_t end) {
    in_chunks(flat.gradients, begin, end, [&](int64_t place, const at::Tensor& chunk) {
      const at::Tensor whole = chunk.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      for (const UseSum& use : flat.uses) whole.add_(use.gradients.narrow(0, place, whole.numel()));
      add_squares(whole, place, words_);
    });
  }
  /// Launches what has been collected.
  void finish() const { add_squares_of(ranges_, places_, words_); }

 private:
  const at::Tensor& words_;
  std::vector<at::Tensor> ranges_;
  std::vector<int64_t> places_;
};

bool counts(const FlatModel& model, const GroupRange& group) {
  return group.group != ParamGroup::statistic && (group.split || model.options().counts_unsplit);
}

}  // namespace

void add_squares(FlatModel& model, const at::Tensor& words) {
  c10::NoGradGuard no_grad;
  Squares squares(words);
  for (int b = 0; b < model.num_blocks(); ++b) {
    if (model.is_tied_copy(b)) continue;  // counted by its first holder
    const FlatBlock& flat = model.flat(b);
    for (const GroupRange& group : flat.groups) {
      if (!counts(model, group)) continue;
      const GroupRange own = flat.own(group);
      squares.add(flat.owned_gradients, own.begin, own.end);
    }
  }
  squares.finish();
}

void add_block_squares(FlatModel& model, int block, const at::Tensor& words) {
  c10::NoGradGuard no_grad;
  Squares squares(words);
  const FlatBlock& flat = model.flat(block);
  for (const GroupRange& group : flat.groups) {
    if (!counts(model, group)) continue;
    flat.uses.empty() ? squares.add(flat.gradients, group.begin, group.end)
                      : squares.add_with_uses(flat, group.begin, group.end);
  }
  squares.finish();
}

int64_t squares_bytes(TargetDevice device, int64_t numel, int gradient_bytes) {
  constexpr int kFloatSize = 4;
  return device == TargetDevice::cpu && gradient_bytes < kFloatSize ? std::min(numel, kChunk) * kFloatSize : 0;
}

double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1.0; }

}  // namespace weft
