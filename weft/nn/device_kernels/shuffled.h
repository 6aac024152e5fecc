// in_shuffled_order: how a device kernel's launch runs on the CPU.
#pragma once

#include <cstdint>

namespace weft {

/// Runs a launch's indices [0, count) in a shuffled order, the same in every run.
template <class Of>
void in_shuffled_order(int64_t count, const Of& of) {
  constexpr int64_t kPrime = 2654435761;  // so i x kPrime modulo `count` is a permutation
  for (int64_t i = 0; i < count; ++i) of((i * (kPrime % count) + count / 2) % count);
}

}  // namespace weft
