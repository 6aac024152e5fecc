// Backend: what moves the bytes of one group. Arguments have been checked by Group: contiguous tensors on the right
// device, sizes that fit each other, a peer or root inside the group, at least two ranks.
//
// Calls on one group come from one thread at a time. A backend that failed once repeats that error on every later call.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/comm/call/axis.h"
#include "weft/comm/call/group_options.h"
#include "weft/comm/call/reduce_op.h"
#include "weft/comm/call/work.h"
#include "weft/comm/store/store.h"

namespace weft {

/// What carries a group's calls.
class Backend {
 public:
  explicit Backend(Axis axis) : axis_(std::move(axis)) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual std::string_view kind() const = 0;
  virtual Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) = 0;
  virtual Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) = 0;
  virtual Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) = 0;
  virtual Work broadcast(const at::Tensor& tensor, int root, std::string_view what) = 0;
  virtual Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) = 0;
  virtual Work send(const at::Tensor& tensor, int peer, std::string_view what) = 0;
  virtual Work receive(const at::Tensor& tensor, int peer, std::string_view what) = 0;
  virtual Work barrier(std::string_view what) = 0;
  virtual at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) = 0;

  /// Memory of the group's own that this rank answers for: what calls are staged in.
  virtual int64_t memory_bytes() const { return 0; }

  const Axis& axis() const { return axis_; }
  const std::string& name() const { return axis_.name; }
  int rank() const { return axis_.index; }
  int size() const { return axis_.size(); }
  Traffic& traffic() { return traffic_; }

 private:
  Axis axis_;
  Traffic traffic_;
};

/// All that makes a backend: who is in it, and a store below which its ranks may meet.
struct GroupPlan {
  Axis axis;
  std::vector<std::string> hosts;  ///< of the axis' ranks
  Store store;                     ///< with a table of who waits for whom
  GroupOptions options;
  Deadline deadline = options.timeout;  ///< until when all must have joined
};

}  // namespace weft
