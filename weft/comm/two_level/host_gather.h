// HostGather: the way back of a collective over hosts: parts go from their owners to one rank of each other host.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/comm/call/shard_range.h"
#include "weft/comm/two_level/host_map.h"
#include "weft/comm/two_level/messages.h"
#include "weft/comm/two_level/wire.h"

namespace weft {

/// How many elements go in one message.
int64_t chunk_numel(const at::Tensor& tensor);
/// Chunk `index` of a part, empty past its end; and all of them.
ShardRange chunk_of(ShardRange part, int64_t chunk, int64_t index);
std::vector<ShardRange> chunks_of(ShardRange part, int64_t chunk);

/// Data that has been asked for.
struct Expected {
  int peer = 0;
  at::Tensor data;
  Messages::Pending pending;
};

/// Of one call.
class HostGather {
 public:
  /// Asks for the parts of all that this rank talks to. `flat`: where all parts lie; `parts`: by position.
  HostGather(Messages& messages, const HostMap& map, int rank, const at::Tensor& flat, const std::vector<ShardRange>& parts,
             const Wire& wire);

  /// Sends a chunk of this rank's own part, which becomes what the others get.
  void send(ShardRange chunk);
  /// Returns once all parts that were asked for are in their places.
  void finish();

 private:
  Messages& messages_;
  at::Tensor flat_;
  Wire wire_;
  std::vector<int> peers_;
  std::vector<Expected> expected_;
  std::vector<ShardRange> places_;  ///< of what is expected
};

}  // namespace weft
