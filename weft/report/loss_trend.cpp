#include "weft/report/loss_trend.h"

#include <algorithm>
#include <numeric>

namespace weft {

LossTrend::LossTrend(int64_t steps) : window_(static_cast<size_t>(std::clamp<int64_t>(steps / 10, 1, 20))) {}

void LossTrend::add(double loss) {
  last_.push_back(loss);
  if (last_.size() > window_) last_.pop_front();
  if (last_.size() < window_) return;
  const bool is_first = late_ == 0.0;
  late_ = std::accumulate(last_.begin(), last_.end(), 0.0) / static_cast<double>(window_);
  least_ = is_first ? late_ : std::min(least_, late_);
}

}  // namespace weft
