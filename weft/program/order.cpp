#include "weft/program/order.h"

#include <algorithm>

namespace weft {

Order::Order(const InstructionList& list) : side_index_(list.size(), -1), latest_compute_(list.size(), -1) {
  int num_side = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].lane != Lane::compute) side_index_[i] = num_side++;
  }
  words_ = (num_side + 63) / 64;
  side_done_.assign(words_ * list.size(), 0);
  int previous_compute = -1;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    for (int wait : list[i].waits) merge(i, wait);
    if (list[i].lane != Lane::compute) continue;
    if (previous_compute >= 0) merge(i, previous_compute);
    previous_compute = i;
  }
}

void Order::merge(int into, int finished) {
  uint64_t* row = side_done_.data() + into * words_;
  const uint64_t* other = side_done_.data() + finished * words_;
  for (size_t word = 0; word < words_; ++word) row[word] |= other[word];
  latest_compute_[into] = std::max(latest_compute_[into], latest_compute_[finished]);
  const int side = side_index_[finished];
  if (side < 0) {
    latest_compute_[into] = std::max(latest_compute_[into], finished);
  } else {
    row[side / 64] |= uint64_t{1} << (side % 64);
  }
}

bool Order::before(int a, int b) const {
  if (a < 0) return false;
  const int side = side_index_[a];
  if (side < 0) return a <= latest_compute_[b];
  return (side_done_[b * words_ + side / 64] >> (side % 64) & 1) != 0;
}

}  // namespace weft
