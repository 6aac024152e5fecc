// Order: which instructions of a list are guaranteed to have finished when another starts, by the rules of instruction.h.
//
// Compute instructions finish in order. So it suffices to store, for each instruction, the latest compute instruction before it
// and, on another lane, the first one after it. Chains of waits among other lanes are walked per query. Memory: a few numbers
// per instruction; time: constant per query, plus the length of such a chain.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

class Order {
 public:
  /// Keeps a reference to the list. Every wait must be the index of an earlier instruction.
  explicit Order(const InstructionList& list);

  /// True if `a` has finished before `b` starts, whatever the lanes' timing. False for a negative `a`.
  bool before(int a, int b) const;

 private:
  bool on_compute(int i) const { return list_[i].lane == Lane::compute; }
  void follow(int compute);
  bool reaches(int side, int from) const;

  const InstructionList& list_;
  std::vector<int> latest_compute_;  // the last compute instruction finished before each, or -1
  std::vector<int> first_compute_;   // for other lanes: the first compute instruction that starts after its end
  mutable std::vector<int> to_see_;  // stack of a walk
  mutable std::vector<int> seen_;    // by instruction: the last walk that visited it
  mutable int walk_ = 0;
};

}  // namespace weft
