// recorded_group: a group that moves nothing and writes down what it is asked for; so a block that runs on the meta device
// tells what it sends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/comm/group.h"

namespace weft {

/// A call on a group.
struct RecordedCall {
  std::string group;       ///< its name
  int rounds = 1;          ///< messages one after another: 2 (n-1) for an all-reduce, n-1 for its halves, 1 for a message
  int64_t wire_bytes = 0;  ///< that this rank sends (comm/group.h)

  bool operator==(const RecordedCall&) const = default;
};

/// A group of `size` ranks with that name, this one the first, which adds its calls to `calls`; its tensors keep their values,
/// or have none (the meta device).
Group recorded_group(const std::string& name, int size, std::shared_ptr<std::vector<RecordedCall>> calls);

}  // namespace weft
