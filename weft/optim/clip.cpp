#include "weft/optim/clip.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/optim/squares.h"

namespace weft {

void add_squares(FlatModel& model, ExactSum& sum) {
  constexpr int64_t kChunk = int64_t{1} << 18;  // of gradients that must be converted first
  c10::NoGradGuard no_grad;
  for (int b = 0; b < model.num_blocks(); ++b) {
    if (model.is_tied_copy(b)) continue;  // its first holder counts it
    const FlatBlock& flat = model.flat(b);
    for (const GroupRange& group : flat.groups) {
      if (group.group == ParamGroup::statistic || (!group.split && !model.options().counts_unsplit)) continue;
      const GroupRange own = flat.own(group);
      for (int64_t begin = own.begin; begin < own.end; begin += kChunk) {
        add_squares(flat.owned_gradients.narrow(0, begin, std::min(kChunk, own.end - begin)).to(at::kFloat), begin, sum);
      }
    }
  }
}

double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1.0; }

}  // namespace weft
