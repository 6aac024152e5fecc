#include "weft/program/passes/gather_updated.h"

#include "weft/program/cost.h"

namespace weft {

InstructionList gather_updated(const InstructionList& list, const Program& program) {
  if (program.shards == 1) return list;
  InstructionList result = list;
  for (const Instruction& x : list) {
    for (int block = x.first; x.op == Op::update && block < x.last; ++block) {
      if (program.block_numel[block] == 0) continue;
      result.push_back({.op = Op::gather,
                        .lane = Lane::comm,
                        .first = block,
                        .last = block + 1,
                        .axis = AxisName::shard,
                        .wire_bytes = shard_bytes(program.block_numel[block] * program.weight_bytes, program.shards)});
    }
  }
  return result;
}

}  // namespace weft
