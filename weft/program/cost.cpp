#include "weft/program/cost.h"

#include <algorithm>

namespace weft {

int64_t all_reduce_bytes(int64_t bytes, int ranks) { return 2 * (ranks - 1) * bytes / ranks; }

StepCost step_cost(const InstructionList& list) {
  StepCost cost;
  int64_t activations = 0;
  int64_t partials = 0;
  for (const Instruction& x : list) {
    (x.op == Op::backward ? cost.backward_flops : cost.forward_flops) += x.flops;
    (x.op == Op::reduce_loss ? cost.loss_wire_bytes : cost.gradient_wire_bytes) += x.wire_bytes;
    if (x.op == Op::reduce) ++cost.num_reduces;
    int64_t& live = x.op == Op::combine ? partials : activations;
    int64_t& peak = x.op == Op::combine ? cost.peak_partial_bytes : cost.peak_activation_bytes;
    live += x.allocates;
    peak = std::max(peak, live);
    live -= x.frees;
  }
  return cost;
}

}  // namespace weft
