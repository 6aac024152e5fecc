#include "weft/program/passes/shard_gradients.h"

#include <utility>
#include <vector>

#include "weft/program/axes.h"
#include "weft/program/cost.h"
#include "weft/program/edit.h"

namespace weft {
namespace {

// True for tied weights of two stages of one rank: micro-batches are added in mixed order, and cannot be reduced separately.
bool mixes_micro_batches(const InstructionList& list, const std::vector<int>& writes) {
  int latest = 0;
  for (const int at : writes) {
    if (list[at].micro < latest) return true;
    latest = list[at].micro;
  }
  return false;
}

// Positions of the last additions to the block's gradients: by micro-batch, or for the last one only.
std::vector<int> last_writes(const InstructionList& list, const std::vector<int>& writes, int micro_batches, bool every) {
  std::vector<int> last(micro_batches, -1);
  for (const int at : writes) {
    if (!every) last.back() = at;
    if (every && list[at].micro >= 0) last[list[at].micro] = at;
  }
  return last;
}

}  // namespace

InstructionList shard_gradients(InstructionList list, const Program& program, const ShardGradientsOptions& options) {
  const int last_micro = program.micro_batches - 1;
  const std::vector<int> held = held_blocks(list, program.block_uses);
  const Positions writes = gradient_writes(list, program.block_uses);
  std::vector<Insertion> insertions;
  for (auto at = held.rbegin(); at != held.rend(); ++at) {
    const int block = *at;
    const int64_t bytes = program.block_numel[block] * program.gradient_bytes, sums = program.num_sums(block);
    if (bytes == 0) continue;
    const bool every = options.every_micro_batch && !mixes_micro_batches(list, writes[block]);
    const std::vector<int> last = last_writes(list, writes[block], program.micro_batches, every);
    for (int micro = every ? 0 : last_micro; micro <= last_micro; ++micro) {
      const int after = last[micro];
      insertions.push_back({after,
                            {.op = Op::reduce_scatter,
                             .lane = Lane::comm,
                             .first = block,
                             .last = block + 1,
                             .micro = micro,
                             .axes = kShardAxis,
                             .wire_bytes = sums * shard_bytes(bytes, program.shards)}});
      if (micro < last_micro || program.replicas == 1) continue;
      insertions.push_back({after,
                            {.op = Op::reduce,
                             .lane = Lane::comm,
                             .first = block,
                             .last = block + 1,
                             .axes = replica_axes(program),
                             .wire_bytes = sums * all_reduce_bytes(bytes / program.shards, program.replicas)}});
    }
  }
  return insert(std::move(list), std::move(insertions));
}

}  // namespace weft
