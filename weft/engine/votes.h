// Votes: numbers that ranks agree on during training, without a collective of their own.
#pragma once

#include <functional>
#include <vector>

namespace weft {

/// Numbers summed over all ranks with the losses of each step, once all of its gradients are ready. Later events count for the
/// next step. Sums of whole numbers are exact. Traffic: 2 (n-1)/n of 8 bytes per number and step.
struct Votes {
  int count = 0;                                      ///< Program::votes, the same on all ranks
  std::function<std::vector<double>()> of_rank = {};  ///< called once per step where count is above 0; empty: zeros
};

/// This rank's votes in a step, `count` of them. Throws InputError if it gives another number.
std::vector<double> votes_of(const Votes& votes, int count, int64_t step);

}  // namespace weft
