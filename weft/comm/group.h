// Group: collectives among the ranks of an axis. A small value; copies share one connection.
//
// Every call is identified by its order, and carries the caller's name for it ("bucket 3 gradients"): ranks whose calls do not
// match all get a CommError that names both sides' calls, a peer that dies is named, and every wait has a deadline. A group of
// one rank is the identity and costs nothing. Tensors must be contiguous.
//
// Reductions on shm follow one fixed binary tree over ranks, and so do those of c10d in a group made with tree_order:
// tree(lo, hi) = tree(lo, mid) + tree(mid, hi) with mid = lo + the largest power of two below hi - lo.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weft {

enum class ReduceOp { sum, max, min };

/// Which engine moves the bytes. `automatic`: shm where all ranks of the group are on one host and the tensors on the CPU,
/// NCCL where they are on GPUs, Gloo otherwise; where several hosts hold several ranks each, all_reduce goes in two levels.
enum class BackendKind { automatic, shm, gloo, nccl };

struct GroupOptions {
  BackendKind backend = BackendKind::automatic;
  at::Device device = at::kCPU;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// Sum in the fixed tree on every backend, so that results do not depend on it. Costs c10d an all-to-all and an all-gather
  /// instead of a ring (the same bytes). shm always does.
  bool tree_order = false;
  /// shm: so many bytes on their way to a peer cost the sender no wait. Of shared memory, for each pair of ranks that talk.
  int64_t message_bytes = 1 << 20;
};

/// What this rank has done on a group so far.
struct Traffic {
  int64_t calls = 0;
  int64_t bytes = 0;     ///< payload this rank had to send, by the algorithm-independent convention below
  double seconds = 0.0;  ///< wall time this rank spent inside calls and waits
};

/// The part of a flat range of `numel` elements that `rank` of `size` owns in reduce_scatter, all_gather and all_to_all:
/// chunks of ceil(numel / size), the last ones shorter or empty.
struct ShardRange {
  int64_t begin = 0;
  int64_t end = 0;
};
ShardRange shard_range(int64_t numel, int size, int rank);

/// A collective under way. wait() may be called more than once; the destructor does not wait.
class Work {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;
  };
  Work() = default;  ///< already done
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool done() const { return !state_; }  ///< nothing is left to wait for
  void wait() {
    if (state_) state_->wait();
  }

 private:
  std::shared_ptr<State> state_;
};

/// Group::memory_bytes() of a rank of a shm group.
int64_t shm_memory_bytes(int ranks, const GroupOptions& options = {});

class Group {
 public:
  class Backend;  // comm/backend.h

  /// One rank, whose tensors are on `device`: every call is the identity.
  explicit Group(at::Device device);
  Group() : Group(at::Device(at::kCPU)) {}
  explicit Group(std::shared_ptr<Backend> backend);

  int rank() const;
  int size() const;
  const std::string& name() const;   ///< the axis, e.g. "dp" or "dp+shard"
  std::string_view backend() const;  ///< "shm", "gloo", "shm+gloo", "nccl", "identity"

  /// In place. Traffic counted: 2 (n-1)/n of the bytes.
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) const;
  /// `input` has N elements, `output` the shard_range(N, size, rank) of their sum; output may be that
  /// range of input itself. Traffic: (n-1)/n of the input's bytes.
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) const;
  /// `output` has N elements, `input` this rank's shard_range of them; input may be that range of output itself.
  /// Traffic: (n-1)/n of the output's bytes.
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) const;
  /// In place from `root`. Traffic: the bytes at the root, none elsewhere.
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) const;
  /// Part p of `input` (shard_range of its elements for p) goes to rank p; `output` receives this rank's part from every
  /// rank, in rank order (size * own part elements). Traffic: (n-1)/n of the input's bytes.
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) const;
  Work send(const at::Tensor& tensor, int peer, std::string_view what) const;
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) const;
  Work barrier(std::string_view what) const;

  /// A zero-filled flat tensor that collectives of this group use without staging: in shared memory on shm, plain memory of
  /// GroupOptions::device elsewhere. Collective: every rank of the group calls it with the same size.
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) const;

  const Traffic& traffic() const;

  /// Memory of the group's own that this rank answers for: what calls are staged in (shm; other engines do not tell).
  int64_t memory_bytes() const;

 private:
  std::shared_ptr<Backend> backend_;
  at::Device device_ = at::kCPU;  ///< of a group of one
};

}  // namespace weft
