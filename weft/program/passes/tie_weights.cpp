#include "weft/program/passes/tie_weights.h"

#include "weft/program/cost.h"
#include "weft/program/edit.h"
#include "weft/program/ties.h"

namespace weft {

InstructionList tie_weights(InstructionList list, const Program& program) {
  for (const int block : held_blocks(list, program.block_uses)) {
    if (!program.is_shared(block) || program.block_numel[block] == 0) continue;
    const int64_t bytes = program.block_numel[block] * program.gradient_bytes / program.shards;
    list.push_back({.op = Op::reduce,
                    .lane = Lane::comm,
                    .first = block,
                    .last = block + 1,
                    .axes = kPipelineAxis,
                    .wire_bytes = all_reduce_bytes(bytes * tied_rows(program, block), program.num_holders(block))});
  }
  return list;
}

}  // namespace weft
