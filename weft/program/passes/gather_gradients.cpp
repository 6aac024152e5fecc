#include "weft/program/passes/gather_gradients.h"

#include <utility>
#include <vector>

#include "weft/program/cost.h"
#include "weft/program/edit.h"

namespace weft {

InstructionList gather_gradients(InstructionList list, const Program& program) {
  std::vector<Insertion> gathers;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Instruction& x = list[i];
    for (int block = x.first; x.op == Op::update && block < x.last; ++block) {
      if (!program.gathers_gradients(block) || program.block_numel[block] == 0) continue;
      const int64_t bytes = program.block_numel[block] * program.gathered_gradient_bytes[block];
      gathers.push_back({i - 1,
                         {.op = Op::gather_gradients,
                          .lane = Lane::comm,
                          .first = block,
                          .last = block + 1,
                          .axes = kShardAxis,
                          .wire_bytes = shard_bytes(bytes, program.shards)}});
    }
  }
  return insert(std::move(list), std::move(gathers));
}

}  // namespace weft
