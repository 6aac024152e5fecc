#include "weft/program/program.h"

namespace weft {

bool OffloadOptions::is_beside(Payload what) const {
  if (what == Payload::optimizer) return beside.optimizer;
  return what == Payload::weights ? beside.weights : what == Payload::input && beside.activations;
}

const std::vector<InnerCall>& Program::inner_calls(const Instruction& x) const {
  static const std::vector<InnerCall> none;
  if (x.op == Op::loss) return loss_calls;
  if (x.first < 0 || x.first >= static_cast<int>(block_calls.size())) return none;
  const InnerCalls& calls = block_calls[x.first];
  switch (x.op) {
    case Op::forward:
      return calls.forward;
    case Op::backward:
      return calls.backward;
    case Op::backward_input:
      return calls.input;
    case Op::backward_weight:
      return calls.weight;
    default:
      return none;
  }
}

}  // namespace weft
