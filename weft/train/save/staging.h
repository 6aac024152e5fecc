// Staging: memory that a rank's state is copied to when a save begins, so that steps may change it while it is written.
//
// Memory: as much as the rank writes, taken at the first copy and kept for the next.
#pragma once

#include <vector>

#include "weft/checkpoint/format/state_part.h"

namespace weft {

/// A copy of parts of state.
class Staging {
 public:
  /// Copies the part, as the next one; the memory of earlier copies is used again after clear().
  void add(const StatePart& part);
  /// The copies.
  const std::vector<StatePart>& parts() const { return parts_; }
  /// Lets the copies go, not their memory.
  void clear();

 private:
  std::vector<StatePart> parts_;
  std::vector<at::Tensor> memory_;  ///< of the i-th part added
};

}  // namespace weft
