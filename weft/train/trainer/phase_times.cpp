#include "weft/train/trainer/phase_times.h"

#include <algorithm>

namespace weft {
namespace {

/// The phase that an operation belongs to; null: none.
double PhaseTimes::*phase_of(Op op) {
  switch (op) {
    case Op::forward:
    case Op::loss:
      return &PhaseTimes::forward_s;
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
    case Op::combine:
      return &PhaseTimes::backward_s;
    case Op::norm:
    case Op::squares:
    case Op::update:
      return &PhaseTimes::update_s;
    default:
      return nullptr;
  }
}

}  // namespace

PhaseTimes phase_times(const InstructionList& list, const std::vector<InstructionTime>& times) {
  PhaseTimes phases;
  for (size_t i = 0; i < std::min(list.size(), times.size()); ++i) {
    if (double PhaseTimes::*phase = phase_of(list[i].op)) phases.*phase += times[i].end_s - times[i].start_s;
  }
  return phases;
}

}  // namespace weft
