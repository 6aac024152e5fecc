// Vector clocks (Fidge 1988, Mattern 1989): one count per actor, which is the host or a stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft::checked_device {

class Clock {
 public:
  uint64_t of(size_t actor) const { return actor < counts_.size() ? counts_[actor] : 0; }

  /// Everything that happened before `other` now happened before this too.
  void join(const Clock& other) {
    if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
    for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] = std::max(counts_[i], other.counts_[i]);
  }

  uint64_t tick(size_t actor) {
    if (actor >= counts_.size()) counts_.resize(actor + 1);
    return ++counts_[actor];
  }

 private:
  std::vector<uint64_t> counts_;
};

}  // namespace weft::checked_device
