// Group: collectives among the ranks of an axis. A small value; copies share one connection.
//
// Every call is identified by its order, and carries the caller's name for it ("bucket 3 gradients"): ranks whose calls do not
// match all get a CommError that names both sides' calls, a peer that dies is named, and every wait has a deadline. A group of
// one rank is the identity and costs nothing. Tensors must be contiguous.
//
// Reductions on shm follow one fixed binary tree over ranks, and so do those of c10d in a group made with tree_order:
// tree(lo, hi) = tree(lo, mid) + tree(mid, hi) with mid = lo + the largest power of two below hi - lo. Where else sums are made
// in it: docs/data_parallel.md, "The tree of sums".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weft/comm/call/group_options.h"
#include "weft/comm/call/reduce_op.h"
#include "weft/comm/call/shard_range.h"
#include "weft/comm/call/work.h"

namespace weft {

class Backend;  // comm/call/backend.h

/// Collectives among the ranks of an axis. `what` names a call in errors. All calls throw InputError for tensors that do not
/// fit, and, they or the Work they return, CommError.
class Group {
 public:
  /// A group of one rank, whose tensors are on `device`: every call is the identity.
  explicit Group(at::Device device);
  Group() : Group(at::Device(at::kCPU)) {}
  /// A group whose bytes `backend` moves; Mesh::group() makes them.
  explicit Group(std::shared_ptr<Backend> backend);

  int rank() const;                  ///< this rank's place among the group's, from 0
  int size() const;                  ///< the group's ranks
  const std::string& name() const;   ///< the axis, e.g. "dp" or "dp+shard"
  std::string_view backend() const;  ///< "shm", "gloo", "shm+gloo", "nccl", "identity"

  /// Sums `tensor` over the ranks, or takes the maximum or minimum, in place. Traffic counted: 2 (n-1)/n of the bytes.
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) const;
  /// Sums `input`, N elements, over the ranks: `output` is the shard_range(N, size, rank) of the sum; it may be that range of
  /// input itself. Traffic: (n-1)/n of the input's bytes.
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) const;
  /// Puts the ranks' parts side by side: `output` has N elements, `input` this rank's shard_range of them; input may be that
  /// range of output itself. Traffic: (n-1)/n of the output's bytes.
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) const;
  /// Copies `tensor` of the rank at place `root` to all others. Traffic: the bytes at the root, none elsewhere.
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) const;
  /// Exchanges parts: part p of `input` (shard_range of its elements for p) goes to rank p; `output` receives this rank's part
  /// from every rank, in rank order (size * own part elements). Traffic: (n-1)/n of the input's bytes.
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) const;
  /// Sends `tensor` to the rank at place `peer`, which receives messages in the order in which they are sent. Traffic: the
  /// bytes.
  Work send(const at::Tensor& tensor, int peer, std::string_view what) const;
  /// Fills `tensor` with the next message from the rank at place `peer`, which must be of this type and size.
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) const;
  /// Moves nothing; its Work is done once all ranks have called it.
  Work barrier(std::string_view what) const;

  /// A zero-filled flat tensor that collectives of this group use without staging: in shared memory on shm, plain memory of
  /// GroupOptions::device elsewhere. Collective: every rank of the group calls it with the same size.
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) const;

  /// What this rank has done on the group so far.
  const Traffic& traffic() const;

  /// Memory of the group's own that this rank answers for: what calls are staged in (shm; other engines do not tell).
  int64_t memory_bytes() const;

 private:
  std::shared_ptr<Backend> backend_;
  at::Device device_ = at::kCPU;  ///< of a group of one
};

}  // namespace weft
