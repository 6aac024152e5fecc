#include "weft/program/passes/shard_gradients.h"

#include <vector>

#include "weft/program/cost.h"
#include "weft/program/edit.h"

namespace weft {
namespace {

// The last write of each micro-batch to the block's gradients; of all of them for `micro` < 0.
int last_write_of(const InstructionList& list, int block, int micro, const Program& program) {
  int last = -1;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (micro >= 0 && list[i].micro != micro) continue;
    if (writes_gradients(list[i], block, block + 1, program.block_uses)) last = i;
  }
  return last;
}

// Tied weights of two stages of one rank: micro-batches are added in no one order, and none can be reduced by itself.
bool mixes_micro_batches(const InstructionList& list, int block, const Program& program) {
  int latest = 0;
  for (const Instruction& x : list) {
    if (!writes_gradients(x, block, block + 1, program.block_uses)) continue;
    if (x.micro < latest) return true;
    latest = x.micro;
  }
  return false;
}

}  // namespace

InstructionList shard_gradients(const InstructionList& list, const Program& program, const ShardGradientsOptions& options) {
  const int last_micro = program.micro_batches - 1;
  const std::vector<int> held = held_blocks(list, program.block_uses);
  std::vector<Insertion> insertions;
  for (auto at = held.rbegin(); at != held.rend(); ++at) {
    const int block = *at;
    const int64_t bytes = program.gradient_block_bytes(block);
    if (bytes == 0) continue;
    const bool every = options.every_micro_batch && !mixes_micro_batches(list, block, program);
    for (int micro = every ? 0 : last_micro; micro <= last_micro; ++micro) {
      const int after = last_write_of(list, block, every ? micro : -1, program);
      insertions.push_back({after,
                            {.op = Op::reduce_scatter,
                             .lane = Lane::comm,
                             .first = block,
                             .last = block + 1,
                             .micro = micro,
                             .axis = AxisName::shard,
                             .wire_bytes = shard_bytes(bytes, program.shards)}});
      if (micro < last_micro || program.replicas == 1) continue;
      insertions.push_back({after,
                            {.op = Op::reduce,
                             .lane = Lane::comm,
                             .first = block,
                             .last = block + 1,
                             .axis = AxisName::dp,
                             .wire_bytes = all_reduce_bytes(bytes / program.shards, program.replicas)}});
    }
  }
  return insert(list, insertions);
}

}  // namespace weft
