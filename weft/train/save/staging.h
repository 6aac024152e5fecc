// Staging: memory for a copy of a rank's state when a save begins, so that steps may change the state during the write.
//
// Memory: as much as the rank writes, taken at the first copy and reused.
#pragma once

#include <c10/core/Stream.h>

#include <optional>
#include <vector>

#include "weft/checkpoint/format/state_part.h"

namespace weft {

/// A copy of parts of the state.
class Staging {
 public:
  /// Appends a copy of the part; reuses the memory of earlier copies after clear().
  void add(const StatePart& part);
  /// Waits until a device has made the copies. Call it after the last add(), before others read them.
  void finish();
  /// The copies.
  const std::vector<StatePart>& parts() const { return parts_; }
  /// Releases the copies, not their memory.
  void clear();

 private:
  std::vector<StatePart> parts_;
  std::vector<at::Tensor> memory_;     ///< for the i-th part added
  std::optional<c10::Stream> stream_;  ///< of a device that copies
};

}  // namespace weft
