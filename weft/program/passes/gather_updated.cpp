#include "weft/program/passes/gather_updated.h"

#include "weft/program/cost.h"

namespace weft {

InstructionList gather_updated(InstructionList list, const Program& program) {
  if (program.shards == 1) return list;
  InstructionList gathers;
  for (const Instruction& x : list) {
    for (int block = x.first; x.op == Op::update && block < x.last; ++block) {
      if (program.block_numel[block] == 0) continue;
      gathers.push_back({.op = Op::gather,
                         .lane = Lane::comm,
                         .first = block,
                         .last = block + 1,
                         .axes = kShardAxis,
                         .wire_bytes = shard_bytes(program.block_numel[block] * program.weight_bytes, program.shards)});
    }
  }
  list.insert(list.end(), gathers.begin(), gathers.end());
  return list;
}

}  // namespace weft
