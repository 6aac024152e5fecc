// HostGather: the second half of a collective over hosts: owners send their parts to one rank of each other host.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/comm/call/shard_range.h"
#include "weft/comm/two_level/host_map.h"
#include "weft/comm/two_level/messages.h"
#include "weft/comm/two_level/wire.h"

namespace weft {

/// Returns the elements per message.
int64_t chunk_numel(const at::Tensor& tensor);
/// Chunk `index` of a part, empty past its end; and all its chunks.
ShardRange chunk_of(ShardRange part, int64_t chunk, int64_t index);
std::vector<ShardRange> chunks_of(ShardRange part, int64_t chunk);

/// A requested message.
struct Expected {
  int peer = 0;
  at::Tensor data;
  Messages::Pending pending;
};

/// State of one call.
class HostGather {
 public:
  /// Requests the parts of all ranks that this rank communicates with. `flat`: tensor with all parts; `parts`: by position.
  HostGather(Messages& messages, const HostMap& map, int rank, const at::Tensor& flat, const std::vector<ShardRange>& parts,
             const Wire& wire);

  /// Sends a chunk of this rank's part, which is rounded in place to what the others receive.
  void send(ShardRange chunk);
  /// Returns once all requested parts are in place.
  void finish();

 private:
  Messages& messages_;
  at::Tensor flat_;
  Wire wire_;
  std::vector<int> peers_;
  std::vector<Expected> expected_;
  std::vector<ShardRange> places_;  ///< target ranges of the expected messages
};

}  // namespace weft
