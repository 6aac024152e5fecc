#include "weft/program/passes/clip.h"

namespace weft {

InstructionList clip(const InstructionList& list, const Bucket& all) {
  InstructionList result = list;
  result.push_back({.op = Op::norm, .first = all.first, .last = all.last});
  return result;
}

}  // namespace weft
