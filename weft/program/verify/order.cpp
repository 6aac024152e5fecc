#include "weft/program/verify/order.h"

#include <algorithm>
#include <limits>

namespace weft {

Order::Order(const InstructionList& list)
    : list_(list),
      latest_compute_(list.size(), -1),
      first_compute_(list.size(), std::numeric_limits<int>::max()),
      seen_(list.size(), 0) {
  int previous_compute = -1;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    int& latest = latest_compute_[i];
    for (const int wait : list[i].waits) latest = std::max(latest, on_compute(wait) ? wait : latest_compute_[wait]);
    if (!on_compute(i)) continue;
    latest = std::max(latest, previous_compute);
    previous_compute = i;
    follow(i);
  }
}

// Follows those waits of this compute instruction, over other lanes, that no earlier one has.
void Order::follow(int compute) {
  to_see_ = list_[compute].waits;
  while (!to_see_.empty()) {
    const int i = to_see_.back();
    to_see_.pop_back();
    if (on_compute(i) || first_compute_[i] <= compute) continue;
    first_compute_[i] = compute;
    to_see_.insert(to_see_.end(), list_[i].waits.begin(), list_[i].waits.end());
  }
}

bool Order::before(int a, int b) const {
  if (a < 0 || a >= b) return false;
  if (on_compute(a)) return a <= latest_compute_[b];
  if (on_compute(b)) return first_compute_[a] <= b;
  return first_compute_[a] <= latest_compute_[b] || reaches(a, b);
}

// True if `from` waits for `side` through other lanes only.
bool Order::reaches(int side, int from) const {
  if (std::binary_search(list_[from].waits.begin(), list_[from].waits.end(), side)) return true;
  ++walk_;
  to_see_ = list_[from].waits;
  while (!to_see_.empty()) {
    const int i = to_see_.back();
    to_see_.pop_back();
    if (i == side) return true;
    if (i < side || on_compute(i) || seen_[i] == walk_) continue;
    seen_[i] = walk_;
    to_see_.insert(to_see_.end(), list_[i].waits.begin(), list_[i].waits.end());
  }
  return false;
}

}  // namespace weft
