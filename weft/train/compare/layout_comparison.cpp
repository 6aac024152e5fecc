#include "weft/train/compare/layout_comparison.h"

#include <algorithm>

namespace weft {

const Deviation* LayoutComparison::first() const {
  const auto shows = [this](const Deviation& deviation) { return match != LayoutMatch::different || !deviation.is_rounding(); };
  const auto found = std::find_if(deviations.begin(), deviations.end(), shows);
  return found == deviations.end() ? nullptr : &*found;
}

const Deviation* LayoutComparison::largest() const {
  const Deviation* largest = nullptr;
  for (const Deviation& deviation : deviations) {
    if (deviation.is_weight && (largest == nullptr || deviation.relative > largest->relative)) largest = &deviation;
  }
  return largest;
}

}  // namespace weft
