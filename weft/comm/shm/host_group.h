// HostGroup: what groups over several hosts ask of the ranks of one host, besides the calls that every group has.
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
/// Takes a piece of a range that this rank wanted; sources[r] is where that piece lies in rank r's memory.
using Consume = std::function<void(ShardRange piece, const void* const* sources)>;

/// Ranks of one host.
class HostGroup {
 public:
  virtual ~HostGroup() = default;
  /// Lets rank r read the ranges wanted[r] of all ranks' inputs, in pieces, in order. Ranges may be asked for by several ranks.
  virtual void reduce_ranges(const Call& call, const at::Tensor& input, const std::vector<Ranges>& wanted,
                             const Consume& consume) = 0;
  /// Rank r has the ranges held[r] of `tensor`; after that all ranks have all of them. No element is held twice.
  virtual void gather_ranges(const Call& call, const at::Tensor& tensor, const std::vector<Ranges>& held) = 0;
  /// The calls that every group has.
  virtual Backend& backend() = 0;
};

/// Joins the ranks of the plan, all on one host; one rank is a group too. Collective. Throws CommError.
std::shared_ptr<HostGroup> make_host_group(const GroupPlan& plan);

}  // namespace weft::shm
