// Order: which instructions of a list have surely finished when another starts, by the rules of instruction.h.
//
// Time and memory: instructions x (instructions that are not on the compute lane) / 64.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"

namespace weft {

class Order {
 public:
  /// Every wait must be the index of an earlier instruction.
  explicit Order(const InstructionList& list);

  /// True when `a` has finished before `b` starts, however the lanes run. False for a negative `a`.
  bool before(int a, int b) const;

 private:
  void merge(int into, int finished);

  std::vector<int> side_index_;      // place among the instructions off the compute lane, or -1
  std::vector<int> latest_compute_;  // the last compute instruction finished before each
  size_t words_ = 0;                 // of a row of side_done_
  std::vector<uint64_t> side_done_;  // per instruction, a bit for each instruction off the compute lane
};

}  // namespace weft
