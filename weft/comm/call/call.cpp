#include "weft/comm/call/call.h"

#include <fmt/format.h>

namespace weft {

std::string_view operation_name(Operation operation) {
  switch (operation) {
    case Operation::none:
      return "nothing";
    case Operation::join:
      return "joining the group";
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_gather:
      return "all_gather";
    case Operation::broadcast:
      return "broadcast";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::send:
      return "send";
    case Operation::receive:
      return "receive";
    case Operation::barrier:
      return "barrier";
    case Operation::allocate:
      return "allocate";
  }
  return "an unknown operation";
}

std::string_view dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(dtype);
  }
}

Call call_on(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp reduce, int root) {
  return {.operation = operation,
          .dtype = tensor.scalar_type(),
          .reduce = reduce,
          .root = root,
          .numel = tensor.numel(),
          .what = what};
}

bool same_shape(const Call& a, const Call& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.numel == b.numel && a.root == b.root &&
         (!a.reduces() || a.reduce == b.reduce);
}

namespace {

std::string describe(const Call& call, const std::string& peer) {
  std::string text(operation_name(call.operation));
  if (call.operation == Operation::none || call.operation == Operation::join) return text;
  if (call.reduces()) text += call.reduce == ReduceOp::sum ? " sum" : call.reduce == ReduceOp::max ? " max" : " min";
  if (call.operation != Operation::barrier) text += fmt::format(" of {} {}", call.numel, dtype_name(call.dtype));
  return text + peer + fmt::format(" \"{}\"", call.what);
}

}  // namespace

std::string describe(const Call& call) { return describe(call, std::string()); }

std::string describe(const Call& call, const Axis& axis) {
  if (call.root < 0 || call.root >= axis.size()) return describe(call);
  return describe(call, fmt::format(" {} rank {}", call.operation == Operation::send ? "to" : "from", axis.ranks[call.root]));
}

std::string rank_name(const Axis& axis, int position) {
  return "rank " + rank_on_axis(axis.ranks[position], axis.name, axis.ranks);
}

RankRow wait_in(const Call& call, const Axis& axis, const std::vector<int>& positions) {
  RankRow row;
  row.axis = axis.name;
  row.members = axis.ranks;
  row.doing = describe(call);
  for (int position : positions) row.awaits.push_back(axis.ranks[position]);
  return row;
}

}  // namespace weft
