// The collectives of a shm group. Each rank works directly on its peers' memory: on their registered buffers, or on staging
// areas into which they copied a chunk of their tensors.
//
// Data in registered buffers takes one pass and two barriers. Staged data takes a copy in and, for all_reduce, a copy out, in
// chunks small enough to stay in cache. It is pipelined: one chunk is copied in while the previous one is reduced and the one
// before that is copied out.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/comm/call/call.h"
#include "weft/comm/call/reduce_op.h"
#include "weft/comm/call/work.h"
#include "weft/comm/shm/barrier.h"
#include "weft/comm/shm/buffers.h"
#include "weft/comm/shm/host_group.h"
#include "weft/comm/shm/members.h"

namespace weft::shm {

/// Staged data: kStages areas per rank.
struct Staging {
  std::byte* base = nullptr;
  size_t area_bytes = 0;
  static size_t total_bytes(int ranks, size_t area_bytes) { return kStages * ranks * area_bytes; }
};

class Collectives {
 public:
  Collectives(Members& members, Barrier& barrier, Buffers& buffers, Staging staging);

  void all_reduce(const Call& call, const at::Tensor& tensor);
  void reduce_scatter(const Call& call, const at::Tensor& output, const at::Tensor& input);
  void all_gather(const Call& call, const at::Tensor& output, const at::Tensor& input);
  void all_to_all(const Call& call, const at::Tensor& output, const at::Tensor& input);
  void broadcast(const Call& call, const at::Tensor& tensor);
  void barrier(const Call& call);

  void reduce_ranges(const Call& call, const at::Tensor& input, const std::vector<Ranges>& wanted, const Consume& consume);
  void gather_ranges(const Call& call, const at::Tensor& tensor, const std::vector<Ranges>& held);

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t count() const { return end - begin; }
  };

  void all_reduce_small(const Call& call, std::byte* data);
  void all_reduce_registered(const Call& call);
  void all_reduce_staged(const Call& call, std::byte* data, bool registered);
  void reduce_slice(const Call& call, std::byte* data, Range chunk, int64_t index);
  void copy_result(const Call& call, std::byte* data, Range chunk, int64_t index) const;
  Range slice(Range chunk, int rank) const;

  /// Each rank's ranges in sequence, cut into rounds of at most `room` elements.
  class Rounds {
   public:
    Rounds(const std::vector<Ranges>& ranges, int64_t room);
    int64_t count() const { return count_; }  ///< rounds of the rank with the most
    /// Pieces of a rank's round; empty after its last.
    const std::vector<Range>& of(int rank, int64_t index) const;

   private:
    std::vector<std::vector<std::vector<Range>>> of_rank_;
    int64_t count_ = 0;
  };

  /// Every rank's shard.
  std::vector<Ranges> shards(int64_t numel) const;
  void stage_for_peers(const Call& call, const std::byte* data, const Rounds& rounds, int64_t index, int64_t room);
  void read_range(const Call& call, const std::byte* data, Range piece, int64_t index, int64_t staged,
                  const Consume& consume) const;
  /// Implements gather_ranges(). `copy`: other memory with this rank's ranges, starting with the first range, or null.
  void share(const Call& call, std::byte* out, const std::vector<Ranges>& held, const std::byte* copy);
  void stage_own(const Call& call, const std::byte* data, const Rounds& rounds, int64_t index);

  std::byte* area(int64_t index, int rank) const;
  bool registered(int rank) const { return barrier_.record(rank).buffer >= 0; }
  int count_registered() const;
  /// Start of a registered rank's data of the call.
  std::byte* registered_data(int rank) const;
  int64_t chunk_numel(const Call& call) const;

  Members& members_;
  Barrier& barrier_;
  Buffers& buffers_;
  Staging staging_;
  int64_t chunks_ = 0;  ///< chunks staged over all calls; selects the next area
};

}  // namespace weft::shm
