#include "weft/program/passes/accumulate.h"

namespace weft {

InstructionList accumulate(const InstructionList& list, int micro_batches) {
  InstructionList result;
  result.reserve(list.size() * micro_batches);
  for (int micro = 0; micro < micro_batches; ++micro) {
    for (Instruction x : list) {
      x.micro = micro;
      result.push_back(std::move(x));
    }
  }
  return result;
}

}  // namespace weft
