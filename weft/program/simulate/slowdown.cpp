#include "weft/program/simulate/slowdown.h"

#include <algorithm>

namespace weft {
namespace {

using Period = std::pair<double, double>;

double shared_seconds(const Period& a, const Period& b) {
  return std::max(std::min(a.second, b.second) - std::max(a.first, b.first), 0.0);
}

}  // namespace

void Slowdown::add(int side, double begin_s, double end_s) {
  if (sides_.empty() || end_s <= begin_s) return;
  Side& at = sides_[static_cast<size_t>(side)];
  at.under_way.emplace_back(begin_s, end_s);
  at.owed_s += share_ * shared_seconds(at.under_way.back(), at.computing);
}

double Slowdown::more(int side, double begin_s, double seconds) {
  if (sides_.empty() || seconds <= 0.0) return 0.0;
  Side& at = sides_[static_cast<size_t>(side)];
  std::erase_if(at.under_way, [begin_s](const Period& moving) { return moving.second <= begin_s; });
  double shared = 0.0;
  for (const Period& moving : at.under_way) shared += shared_seconds(moving, {begin_s, begin_s + seconds});
  const double longer = share_ * std::min(shared, seconds) + std::exchange(at.owed_s, 0.0);
  at.computing = {begin_s, begin_s + seconds + longer};
  return longer;
}

}  // namespace weft
