#include "weft/program/passes/sum_partial_gradients.h"

#include "weft/base/math.h"
#include "weft/program/cost.h"
#include "weft/program/edit.h"
#include "weft/program/ties.h"

namespace weft {

InstructionList sum_partial_gradients(InstructionList list, const ModelCost& model, const Program& program,
                                      const Bucket& blocks) {
  const std::vector<std::vector<int>> users = users_run(program, list);
  int64_t bytes = 0;
  for (const int block : held_blocks(list, program.block_uses)) {
    const int64_t sums = program.uses_apart ? static_cast<int64_t>(users[block].size()) : 1;
    bytes += sums * ceil_divide(model.blocks[block].partial_numel, program.shards) * program.gradient_bytes;
  }
  list.push_back({.op = Op::reduce,
                  .lane = Lane::comm,
                  .first = blocks.first,
                  .last = blocks.last,
                  .axes = kTensorAxis,
                  .wire_bytes = all_reduce_bytes(bytes, program.mesh.tp),
                  .peak = bytes});
  return list;
}

}  // namespace weft
