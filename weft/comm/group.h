// Group: collectives among the ranks of an axis. Cheap to copy: copies share one connection.
//
// Calls are matched by order, and each carries a name given by the caller ("bucket 3 gradients"). If calls do not match, all
// ranks get a CommError that names both calls; if a peer dies, the error names it; every wait has a deadline. A group of one
// rank is the identity and costs nothing. Tensors must be contiguous.
//
// Reductions on shm follow one fixed binary tree over ranks, as do c10d's in a group with tree_order: tree(lo, hi) = tree(lo,
// mid) + tree(mid, hi) with mid = lo + the largest power of two below hi - lo. docs/sharding.md, "The tree of sums", lists
// other sums in this order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "weft/comm/call/group_options.h"
#include "weft/comm/call/reduce_op.h"
#include "weft/comm/call/shard_range.h"
#include "weft/comm/call/work.h"

namespace weft {

class Backend;  // comm/call/backend.h

/// Collectives among the ranks of an axis. `what` names a call in errors. All calls throw InputError for unsuitable tensors;
/// the call or its Work throws CommError.
class Group {
 public:
  /// A group of one rank, with tensors on `device`: every call is the identity.
  explicit Group(at::Device device);
  Group() : Group(at::Device(at::kCPU)) {}
  /// A group that uses `backend`; see Mesh::group().
  explicit Group(std::shared_ptr<Backend> backend);

  int rank() const;                  ///< this rank's position in the group, from 0
  int size() const;                  ///< number of ranks
  const std::string& name() const;   ///< the axis, e.g. "dp" or "dp+shard"
  std::string_view backend() const;  ///< "shm", "gloo", "shm+gloo", "nccl", "identity"

  /// Sums `tensor` over the ranks, or takes the maximum or minimum, in place. Traffic: 2 (n-1)/n of the bytes.
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) const;
  /// Sums `input`, N elements, over the ranks: `output` is the shard_range(N, size, rank) of the sum; it may alias that range
  /// of input. Traffic: (n-1)/n of the input's bytes.
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) const;
  /// Concatenates the ranks' parts: `output` has N elements, `input` is this rank's shard_range of them and may alias that
  /// range of output. Traffic: (n-1)/n of the output's bytes.
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) const;
  /// Copies `tensor` of the rank at position `root` to all others. Traffic: the bytes at the root, 0 elsewhere.
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) const;
  /// Exchanges parts: part p of `input` (shard_range of its elements for p) goes to rank p; `output` receives this rank's part
  /// from every rank, in rank order (size * own part elements). Traffic: (n-1)/n of the input's bytes.
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) const;
  /// Sends `tensor` to the rank at position `peer`, which receives messages in the order of sending. On a device later calls
  /// may wait until it is received, so of two ranks that exchange messages one must receive first. Traffic: the bytes.
  Work send(const at::Tensor& tensor, int peer, std::string_view what) const;
  /// Fills `tensor` with the next message from the rank at position `peer`; its type and size must match.
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) const;
  /// Whether the tensors are on a device, yet send() and receive() take some on the CPU too: from host to host, in the order of
  /// the calls. The host waits for those, for another host alone.
  bool moves_host_tensors() const;
  /// Moves nothing; its Work is done once all ranks have called it.
  Work barrier(std::string_view what) const;

  /// Returns a zero-filled flat tensor that this group's collectives use without staging: in shared memory on shm, in plain
  /// memory of GroupOptions::device elsewhere. Collective: every rank calls it with the same size.
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) const;

  /// Throws the error that has ended the group, as far as this rank knows. On a device Work::wait() does not make the host
  /// wait, and a failure ends the host's waits: what it has read is right only if this does not throw afterwards.
  void throw_if_failed() const;
  /// The same once this rank's calls so far have been compared (of a message: by its receiver), which on a device happens
  /// beside them: results of a step count only then. Waits for at most the group's time limit. Collective, but in any order
  /// with other calls.
  void settle() const;

  /// Throws the error that has ended the group if another rank's end explains `error`, a device's own in `what`, which reached
  /// the host first: in a captured graph no call is there to name it. Looks for that for a second.
  void explain(const std::exception& error, std::string_view what) const;

  /// Tells the group that the device has been given its calls again, with this traffic, in a captured graph (comm/graph) called
  /// `what`. All ranks replay their graphs, in one order with their calls. Throws as calls do.
  void replayed(const Traffic& calls, std::string_view what) const;

  /// Totals of this rank's calls on the group.
  const Traffic& traffic() const;

  /// Bytes of the group's own memory (staging) that this rank accounts for; reported by shm only.
  int64_t memory_bytes() const;

 private:
  std::shared_ptr<Backend> backend_;
  at::Device device_ = at::kCPU;  ///< for a group of one
};

}  // namespace weft
