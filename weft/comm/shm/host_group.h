// HostGroup: operations within one host that groups over several hosts need beyond the ordinary calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "weft/comm/call/backend.h"
#include "weft/comm/call/call.h"
#include "weft/comm/call/shard_range.h"

namespace weft::shm {

/// Ranges of a flat tensor, in ascending order.
using Ranges = std::vector<ShardRange>;
/// Receives a piece of a range that this rank wanted; sources[r] is that piece in rank r's memory.
using Consume = std::function<void(ShardRange piece, const void* const* sources)>;

/// Ranks of one host.
class HostGroup {
 public:
  virtual ~HostGroup() = default;
  /// Lets rank r read the ranges wanted[r] of all ranks' inputs, in pieces, in order. Several ranks may want the same ranges.
  virtual void reduce_ranges(const Call& call, const at::Tensor& input, const std::vector<Ranges>& wanted,
                             const Consume& consume) = 0;
  /// Gathers the ranges held[r] of `tensor` from each rank r to all ranks. No element is held twice.
  virtual void gather_ranges(const Call& call, const at::Tensor& tensor, const std::vector<Ranges>& held) = 0;
  /// The ordinary calls of a group.
  virtual Backend& backend() = 0;
};

/// Joins the plan's ranks, all on one host; a single rank is allowed. Collective. Throws CommError.
std::shared_ptr<HostGroup> make_host_group(const GroupPlan& plan);

}  // namespace weft::shm
