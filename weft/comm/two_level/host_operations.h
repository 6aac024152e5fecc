// HostOperations: two-level collectives of ranks on several hosts. Each host reduces data before it crosses the network and
// distributes it afterwards, so every byte crosses the network once per host; a host's ranks share the work (host_map.h).
//
// A rank owns a part of the tensor: its shard, or in an all_reduce an equal share of its host's equal share. On each host one
// rank adds up the host's elements of the part and, on other hosts, sends them to the owner, which adds up the hosts' sums
// (host_map.h, HostSum) and sends the result back to those ranks, which share it on their hosts. Everything works in chunks, so
// that transfers in both directions overlap the additions. Reduce-scatter and all-gather are the two halves.
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

/// Operations over at least two hosts.
class HostOperations : public Operations {
 public:
  /// `inside`: the ranks of this host; null if this rank is alone there.
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
  /// One part per position.
  using Parts = std::vector<ShardRange>;
  bool is_first() const { return map_.place_of(rank_) == 0; }
  /// Returns the first ranks of the other hosts.
  std::vector<int> other_firsts() const;
  Parts shards(int64_t numel) const;
  Parts shares(int64_t numel) const;
  void all_reduce_small(const at::Tensor& tensor, ReduceOp op);
  /// Adds up every position's part over all ranks. This rank's part goes to `own`; `done` is called after each of its chunks.
  void reduce(const at::Tensor& input, const Parts& parts, ReduceOp op, const at::Tensor& own, const Wire& wire,
              const std::function<void(ShardRange chunk)>& done);
  void add_up_inside(ReduceOp op, const at::Tensor& terms, int64_t stride, int64_t begin, int64_t numel,
                     const void* const* sources) const;
  void add_up_hosts(ReduceOp op, const at::Tensor& output, const std::vector<at::Tensor>& terms) const;
  /// Requests the other hosts' terms of this rank's part.
  std::vector<std::vector<Expected>> expect_terms(const std::vector<ShardRange>& chunks, const Wire& wire);
  /// Adds up this host's terms of the parts that this rank handles, sends them, and returns the terms of its own part.
  std::vector<at::Tensor> send_terms(const at::Tensor& input, const Parts& parts, ReduceOp op, const Wire& wire);
  void read_inside(const at::Tensor& input, const std::vector<shm::Ranges>& wanted, const shm::Consume& consume);
  /// Runs last, after this rank's sends have completed: ranks of a host leave a call together, so a rank that continues and
  /// ends is not reported missing by one that still sends (c10d/peer_watch.h).
  void share_inside(const at::Tensor& tensor, const Parts& parts);
  /// The same when there is nothing to share.
  void meet_inside();

  int rank_;
  HostMap map_;
  HostSum sum_;
  bool tree_order_;
  AcrossHosts across_;
  std::vector<HostSum::Term> own_terms_;  ///< this host's terms
  std::shared_ptr<shm::HostGroup> inside_;
  Messages messages_;
  Call call_;
};

}  // namespace weft
