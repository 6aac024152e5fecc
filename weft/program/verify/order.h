// Order: which instructions of a list have surely finished when another starts, by the rules of instruction.h.
//
// Compute instructions finish one after the other, so that for each instruction the latest of them that it follows says all
// about them, and for each one on another lane the first of them that follows it. What is left are waits of one such
// instruction for another: those are walked when asked for, between the two. Memory: a few numbers an instruction; time: a
// question's is constant but for the walk, whose length is that of such a chain of waits.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

class Order {
 public:
  /// Keeps a reference to the list. Every wait must be the index of an earlier instruction.
  explicit Order(const InstructionList& list);

  /// True when `a` has finished before `b` starts, however the lanes run. False for a negative `a`.
  bool before(int a, int b) const;

 private:
  bool on_compute(int i) const { return list_[i].lane == Lane::compute; }
  void follow(int compute);
  bool reaches(int side, int from) const;

  const InstructionList& list_;
  std::vector<int> latest_compute_;  // the last compute instruction finished before each, or -1
  std::vector<int> first_compute_;   // of those on other lanes: the first compute instruction that starts after its end
  mutable std::vector<int> to_see_;  // of a walk
  mutable std::vector<int> seen_;    // by instruction: the walk that saw it last
  mutable int walk_ = 0;
};

}  // namespace weft
