#include "weft/program/passes/shard_parameters.h"

#include <utility>
#include <vector>

#include "weft/program/cost.h"
#include "weft/program/edit.h"

namespace weft {
namespace {

bool nothing_runs_between(const InstructionList& list, int from, int to) {
  for (int i = from + 1; i < to; ++i) {
    if (list[i].op == Op::forward || is_backward(list[i].op)) return false;
  }
  return true;
}

Instruction gather(const Program& program, int block, AxisSet axes, int ranks) {
  return {.op = Op::gather,
          .lane = Lane::comm,
          .first = block,
          .last = block + 1,
          .axes = axes,
          .wire_bytes = shard_bytes(program.weight_numel(block) * program.weight_bytes, ranks)};
}

Instruction release(int block, bool keeps_inner_shard) {
  return {.op = Op::release, .first = block, .last = block + 1, .keeps_inner_shard = keeps_inner_shard};
}

}  // namespace

InstructionList shard_parameters(InstructionList list, const Program& program, const ShardParametersOptions& options) {
  std::vector<Insertion> gathers;
  std::vector<Insertion> insertions;  // releases first, so memory is freed before more is taken
  const Positions reads = weight_reads(list, program.block_uses);
  const bool has_inner = options.inner_shards > 1;
  for (int block = 0; block < program.num_blocks(); ++block) {
    if (program.weight_numel(block) == 0) continue;
    int previous = -1;
    for (const int use : reads[block]) {
      const bool same_micro = previous >= 0 && list[previous].micro == list[use].micro;
      const bool kept =
          previous >= 0 && (nothing_runs_between(list, previous, use) || (!options.reshard_after_forward && same_micro));
      const bool from_inner = !kept && same_micro && has_inner;
      if (!kept) {
        if (previous >= 0) insertions.push_back({previous, release(block, from_inner)});
        gathers.push_back({use - 1, from_inner ? gather(program, block, kInnerAxis, options.inner_shards)
                                               : gather(program, block, kShardAxis, program.shards)});
      }
      previous = use;
    }
    if (previous >= 0) insertions.push_back({previous, release(block, false)});
  }
  insertions.insert(insertions.end(), gathers.begin(), gathers.end());
  gathers = {};
  return insert(std::move(list), std::move(insertions));
}

}  // namespace weft
