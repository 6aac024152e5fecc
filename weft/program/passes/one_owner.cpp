#include "weft/program/passes/one_owner.h"

#include <utility>
#include <vector>

#include "weft/program/copies.h"
#include "weft/program/edit.h"

namespace weft {
namespace {

Instruction message(Op op, Payload what, int block, int peer, int64_t bytes) {
  return {.op = op,
          .lane = Lane::comm,
          .first = block,
          .last = block + 1,
          .what = what,
          .peer = peer,
          .wire_bytes = op == Op::send ? bytes : 0};
}

// Inputs, which are small, are sent before the weights.
int last_of_batch(const InstructionList& list) {
  int last = -1;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (list[i].what == Payload::batch) last = i;
  }
  return last;
}

}  // namespace

InstructionList one_owner(InstructionList list, const Program& program, int pp) {
  if (program.copies == 1) return list;
  const std::vector<int> children = tree_children(pp, program.copies);
  const Positions writes = gradient_writes(list, program.block_uses);
  const int start = last_of_batch(list);
  std::vector<Insertion> insertions;
  insertions.reserve((children.size() + 1) * 2 * program.num_blocks());
  for (int block = 0; block < program.num_blocks(); ++block) {
    const int64_t weights = program.weight_numel(block) * program.weight_bytes;
    if (weights > 0) {
      if (pp > 0) insertions.push_back({start, message(Op::receive, Payload::weights, block, tree_parent(pp), weights)});
      for (auto child = children.rbegin(); child != children.rend(); ++child) {  // the child with the largest subtree first
        insertions.push_back({start, message(Op::send, Payload::weights, block, *child, weights)});
      }
    }
    const int64_t gradients = program.gradient_block_bytes(block);
    if (gradients == 0) continue;
    const int at = last_position(writes, block, block + 1);
    for (const int child : children) {
      insertions.push_back({at, message(Op::receive, Payload::sum, block, child, gradients)});
    }
    if (pp > 0) insertions.push_back({at, message(Op::send, Payload::sum, block, tree_parent(pp), gradients)});
  }
  return insert(std::move(list), std::move(insertions));
}

}  // namespace weft
