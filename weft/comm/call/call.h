// Call: a rank's request to its group, as compared between ranks and reported in errors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/comm/call/axis.h"
#include "weft/comm/call/reduce_op.h"
#include "weft/comm/wait/waits.h"

namespace weft {

enum class Operation : uint8_t {
  none,
  join,
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  send,
  receive,
  barrier,
  allocate
};

std::string_view operation_name(Operation operation);
std::string_view dtype_name(at::ScalarType dtype);

struct Call {
  Operation operation = Operation::none;
  at::ScalarType dtype = at::kByte;
  ReduceOp reduce = ReduceOp::sum;
  int root = -1;      ///< root of a broadcast; peer of a send or receive; -1 otherwise
  int64_t numel = 0;  ///< elements of the larger tensor, the same on all ranks
  std::string_view what = {};

  bool reduces() const { return operation == Operation::all_reduce || operation == Operation::reduce_scatter; }
};

/// Joining a group, which precedes every other call.
inline constexpr Call kJoin{.operation = Operation::join};

/// Returns the call, given the larger of its tensors.
Call call_on(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp reduce, int root);

/// Returns whether two ranks' calls match, whatever their names.
bool same_shape(const Call& a, const Call& b);

/// Describes a call: `broadcast of 1000 float32 "weights"`.
std::string describe(const Call& call);
/// Describes a call, with the world rank of its root or peer: `broadcast of 1000 float32 from rank 5 "weights"`.
std::string describe(const Call& call, const Axis& axis);
/// Names the rank at a position of the axis: "rank 5 (shard 1 of 4)".
std::string rank_name(const Axis& axis, int position);
/// Returns the table row of a rank that waits in `call` for the ranks at these positions of the axis.
RankRow wait_in(const Call& call, const Axis& axis, const std::vector<int>& positions);

}  // namespace weft
