#include "weft/train/run/gradient_looks.h"

#include <fmt/format.h>

#include "weft/base/units.h"
#include "weft/train/trainer/zero_gradients.h"

namespace weft {

std::vector<Alarm> GradientLooks::after_step(Trainer& trainer) {
  constexpr int kInARow = 3;
  if (++steps_ < next_) return {};
  next_ *= 2;
  std::map<std::string, int> found;
  std::string first;
  int64_t others = 0;
  for (const ZeroGradient& zero : zero_gradients(trainer)) {
    const auto before = found_.find(zero.parameter);
    const int looks = found[zero.parameter] = (before == found_.end() ? 0 : before->second) + 1;
    if (looks != kInARow) continue;
    if (first.empty()) {
      first = fmt::format("{:.0f} % of the gradient of '{}'", 100.0 * zero.share, zero.parameter);
    } else {
      ++others;
    }
  }
  found_ = std::move(found);
  if (first.empty()) return {};
  const std::string more =
      others > 0 ? fmt::format(", and at least half of that of {}", counted(others, "other parameter")) : "";
  return {{.kind = AlarmKind::idle,
           .text = fmt::format("{}{} was exactly zero in {} looks", first, more, kInARow),
           .look_at =
               "dead ReLUs (a lower optimizer.lr, a warm-up, another initialisation), and parts of the model that the loss "
               "does not use"}};
}

}  // namespace weft
