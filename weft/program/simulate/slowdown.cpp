#include "weft/program/simulate/slowdown.h"

#include <algorithm>

namespace weft {

void Slowdown::add(int side, double begin_s, double end_s) {
  if (!under_way_.empty() && end_s > begin_s) under_way_[static_cast<size_t>(side)].emplace_back(begin_s, end_s);
}

double Slowdown::more(int side, double begin_s, double seconds) {
  if (under_way_.empty() || seconds <= 0.0) return 0.0;
  std::vector<std::pair<double, double>>& moving = under_way_[static_cast<size_t>(side)];
  std::erase_if(moving, [begin_s](const auto& span) { return span.second <= begin_s; });
  double shared = 0.0;
  for (const auto& [begin, end] : moving) {
    shared += std::max(std::min(end, begin_s + seconds) - std::max(begin, begin_s), 0.0);
  }
  return share_ * std::min(shared, seconds);
}

}  // namespace weft
