// Partners: which instructions of other ranks an instruction of a step meets: the other members of a collective, the other end
// of a message.
#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// An instruction of a rank.
struct RankInstruction {
  int rank = 0;
  int index = 0;  ///< into the rank's list
};

class Partners {
 public:
  /// For a program that verify() accepts. Keeps no reference.
  explicit Partners(const Program& program);

  /// All that meet in this instruction, itself included; empty: it meets none.
  const std::vector<RankInstruction>& of(int rank, int index) const;

 private:
  std::vector<std::vector<int>> meeting_of_;  ///< by rank and instruction; -1: none
  std::vector<std::vector<RankInstruction>> meetings_;
};

}  // namespace weft
