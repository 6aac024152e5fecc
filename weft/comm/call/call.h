// Call: what a rank asked of its group, as it is compared between ranks and told in errors.
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
  int root = -1;      ///< of a broadcast; the peer of a send or receive; -1 otherwise
  int64_t numel = 0;  ///< of the larger tensor, which all ranks agree on
  std::string_view what = {};

  bool reduces() const { return operation == Operation::all_reduce || operation == Operation::reduce_scatter; }
};

/// Joining a group: what a rank does before it can call anything.
inline constexpr Call kJoin{.operation = Operation::join};

/// The call whose larger tensor this is.
Call call_on(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp reduce, int root);

/// Whether the calls of two ranks match in all but the caller's names for them.
bool same_shape(const Call& a, const Call& b);

/// A call in words: `broadcast of 1000 float32 "weights"`.
std::string describe(const Call& call);
/// A call in words, with the root or peer as a rank of the world: `broadcast of 1000 float32 from rank 5 "weights"`.
std::string describe(const Call& call, const Axis& axis);
/// The name of the rank at a position of the axis: "rank 5 (shard 1 of 4)".
std::string rank_name(const Axis& axis, int position);
/// A wait in that call for these positions of the axis.
RankRow wait_in(const Call& call, const Axis& axis, const std::vector<int>& positions);

}  // namespace weft
