// HostOperations: the collectives of ranks on several hosts, in two levels. What crosses is added up on each host before, and
// shared out on each after, so that every byte crosses once for each host; a host's ranks share the work (host_map.h).
//
// A rank owns a part of the tensor: its shard, or in an all_reduce an equal share of its host's equal share. The owner's host
// adds up its ranks' elements of the part; of every other host one rank adds up those of its own and sends them to the owner,
// which adds the hosts' sums up (host_map.h, HostSum) and sends the result back to those same ranks, which share it with their
// hosts. In chunks, so that a part is on its way both ways while more of it is added up. Reduce-scatter and all-gather are the
// two halves.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "weft/comm/c10d/gloo_engine.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/shm/host_group.h"
#include "weft/comm/two_level/host_gather.h"
#include "weft/comm/two_level/host_map.h"
#include "weft/comm/two_level/messages.h"
#include "weft/comm/two_level/wire.h"

namespace weft {

/// Ranks of at least two hosts.
class HostOperations : public Operations {
 public:
  /// `inside`: the ranks of this host; null where this is the only one.
  HostOperations(const c10::intrusive_ptr<GlooEngine>& engine, const GroupPlan& plan, HostMap map,
                 std::shared_ptr<shm::HostGroup> inside);

  void begin(const Call& call, uint64_t number) override;
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override;
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) override;
  void all_gather(const at::Tensor& output, const at::Tensor& input) override;
  void broadcast(const at::Tensor& tensor, int root) override;
  void all_to_all(const at::Tensor& output, const at::Tensor& input) override;
  void barrier() override;

 private:
  /// A part of each position.
  using Parts = std::vector<ShardRange>;
  bool is_first() const { return map_.place_of(rank_) == 0; }
  /// The first ranks of the other hosts.
  std::vector<int> other_firsts() const;
  Parts shards(int64_t numel) const;
  Parts shares(int64_t numel) const;
  void all_reduce_small(const at::Tensor& tensor, ReduceOp op);
  /// Adds up the parts of all positions over all ranks: this rank's goes to `own`; tells of each chunk of it.
  void reduce(const at::Tensor& input, const Parts& parts, ReduceOp op, const at::Tensor& own, const Wire& wire,
              const std::function<void(ShardRange chunk)>& done);
  void add_up_inside(ReduceOp op, const at::Tensor& terms, int64_t stride, int64_t begin, int64_t numel,
                     const void* const* sources) const;
  void add_up_hosts(ReduceOp op, const at::Tensor& output, const std::vector<at::Tensor>& terms) const;
  /// Asks the other hosts for their terms of this rank's part.
  std::vector<std::vector<Expected>> expect_terms(const std::vector<ShardRange>& chunks, const Wire& wire);
  /// Adds up this host's terms of the parts that this rank talks to others about, sends them, and returns those of its own
  /// part.
  std::vector<at::Tensor> send_terms(const at::Tensor& input, const Parts& parts, ReduceOp op, const Wire& wire);
  void read_inside(const at::Tensor& input, const std::vector<shm::Ranges>& wanted, const shm::Consume& consume);
  /// Comes last, after what this rank sends has gone: ranks of a host leave a call together, so that none that goes on and ends
  /// is missed by one that still sends (c10d/peer_watch.h).
  void share_inside(const at::Tensor& tensor, const Parts& parts);
  /// The same where nothing is shared out.
  void meet_inside();

  int rank_;
  HostMap map_;
  HostSum sum_;
  bool tree_order_;
  AcrossHosts across_;
  std::vector<HostSum::Term> own_terms_;  ///< of this host
  std::shared_ptr<shm::HostGroup> inside_;
  Messages messages_;
  Call call_;
};

}  // namespace weft
