#include "weft/program/cost.h"

#include <algorithm>
#include <utility>

#include "weft/base/math.h"

namespace weft {

// Computes (ranks - 1) bytes / ranks without a product that may overflow.
int64_t shard_bytes(int64_t bytes, int ranks) { return bytes - ceil_divide(bytes, ranks); }

int64_t all_reduce_bytes(int64_t bytes, int ranks) { return shard_bytes(2 * bytes, ranks); }

WireKind wire_kind(const Instruction& x) {
  const Op op = x.op;
  if (op == Op::gather || (op == Op::send && x.what == Payload::weights)) return WireKind::weights;
  if (op == Op::send && x.what == Payload::sum) return WireKind::gradients;
  if (op == Op::send) return WireKind::transfers;
  if (op == Op::forward || op == Op::loss || is_backward(op)) return WireKind::inner;
  const bool of_gradients = op == Op::reduce || op == Op::reduce_scatter || op == Op::gather_gradients;
  return of_gradients ? WireKind::gradients : WireKind::losses;
}

namespace {

int64_t& wire_bytes_of(StepCost& cost, WireKind kind) {
  switch (kind) {
    case WireKind::gradients:
      return cost.gradient_wire_bytes;
    case WireKind::weights:
      return cost.weight_wire_bytes;
    case WireKind::transfers:
      return cost.transfer_wire_bytes;
    case WireKind::inner:
      return cost.inner_wire_bytes;
    case WireKind::losses:
      break;
  }
  return cost.loss_wire_bytes;
}

}  // namespace

StepCost step_cost(const InstructionList& list, const OffloadOptions& offload, const std::vector<int64_t>& beside) {
  StepCost cost;
  int64_t activations = 0;
  int64_t partials = 0;
  int64_t leaving = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const Instruction& x = list[i];
    const int64_t other = i < beside.size() && x.op != Op::combine ? beside[i] : 0;
    if (x.what == Payload::input) activations -= std::exchange(leaving, 0);
    (is_backward(x.op) ? cost.backward_flops : cost.forward_flops) += x.flops;
    wire_bytes_of(cost, wire_kind(x)) += x.wire_bytes;
    if (x.op == Op::reduce || x.op == Op::reduce_scatter) ++cost.num_reduces;
    if (x.op == Op::gather) ++cost.num_gathers;
    int64_t& live = x.op == Op::combine ? partials : activations;
    int64_t& peak = x.op == Op::combine ? cost.peak_partial_bytes : cost.peak_activation_bytes;
    peak = std::max(peak, live + peak_bytes(x) + other);
    live += x.allocates - x.frees;
    if (offload.beside.activations && x.op == Op::offload && x.what == Payload::input) live += leaving = x.frees;
  }
  return cost;
}

}  // namespace weft
