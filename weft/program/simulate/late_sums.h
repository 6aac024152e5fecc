// LateSums: the lists of software that sums gradients only after a rank's last backward and message
// (SoftwareCosts::overlapped_gradients). weft's own programs sum each block's as soon as they are final.
#pragma once

#include <vector>

#include "weft/program/program.h"
#include "weft/program/simulate/simulation.h"

namespace weft {

/// A program with late sums, and the way back. Programs that shard gradients or parameters stay as they are: they sum them
/// during backward.
class LateSums {
 public:
  explicit LateSums(const Program& program);
  LateSums(const LateSums&) = delete;
  LateSums& operator=(const LateSums&) = delete;

  const Program& program() const { return program_; }  ///< the same instructions, in another order

  /// Puts the spans of a simulation of program() into the order of the original.
  void restore(Simulation& simulation) const;

 private:
  Program program_;
  std::vector<std::vector<int>> order_;  // by list: original index of each instruction
};

}  // namespace weft
