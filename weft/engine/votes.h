// Votes: what ranks have to agree on while they train, in no collective of its own.
#pragma once

#include <functional>
#include <vector>

namespace weft {

/// Numbers that are added up over all ranks with the losses of each step, once all of its gradients are there. What happens
/// later counts with the next step. Sums of whole numbers are exact. Traffic: 2 (n-1)/n of 8 bytes per number and step.
struct Votes {
  int count = 0;                                      ///< Program::votes, the same on all ranks
  std::function<std::vector<double>()> of_rank = {};  ///< called once per step where count is above 0; empty: zeros
};

}  // namespace weft
