#include "weft/program/passes/offload.h"

#include <set>
#include <utility>

namespace weft {
namespace {

Instruction move(Op op, Matter what, int block, int micro = -1) {
  return {.op = op, .lane = Lane::copy, .first = block, .last = block + 1, .micro = micro, .what = what};
}

// What the block's input takes.
int64_t input_bytes(const ModelCost& model, int block) { return block == 0 ? 0 : model.blocks[block - 1].output_bytes; }

}  // namespace

InstructionList offload_activations(InstructionList list, const ModelCost& model, const OffloadOptions& options) {
  if (!options.activations) return list;
  std::set<std::pair<int, int>> dropped;  // block and micro-batch
  InstructionList result;
  for (const Instruction& x : list) {
    const bool movable = x.first > 0;  // the first block's input is the micro-batch itself
    if (x.op == Op::forward && movable && dropped.count({x.first, x.micro}) != 0) {
      result.push_back(move(Op::fetch, Matter::activation, x.first, x.micro));
      result.back().allocates = input_bytes(model, x.first);
    }
    result.push_back(x);
    if (x.op != Op::drop || !movable) continue;
    dropped.insert({x.first, x.micro});
    result.push_back(move(Op::evict, Matter::activation, x.first, x.micro));
    result.back().frees = input_bytes(model, x.first);
  }
  return result;
}

InstructionList offload_state(InstructionList list, const OffloadOptions& options) {
  if (!options.optimizer && !options.weights) return list;
  InstructionList result;
  for (const Instruction& x : list) {
    if (x.op != Op::update) {
      result.push_back(x);
      continue;
    }
    for (int block = x.first; block < x.last; ++block) {
      if (options.weights) result.push_back(move(Op::fetch, Matter::weights, block));
      if (options.optimizer) result.push_back(move(Op::fetch, Matter::optimizer, block));
      result.push_back({.op = Op::update, .first = block, .last = block + 1});
      if (options.optimizer) result.push_back(move(Op::evict, Matter::optimizer, block));
      if (options.weights) result.push_back(move(Op::evict, Matter::weights, block));
    }
  }
  return result;
}

InstructionList offload_shards(InstructionList list, const OffloadOptions& options) {
  if (!options.weights) return list;
  InstructionList result;
  for (const Instruction& x : list) {
    const bool from_shard = x.op == Op::gather && x.axis == AxisName::shard;
    if (from_shard) result.push_back(move(Op::fetch, Matter::weights, x.first));
    result.push_back(x);
    if (from_shard) result.push_back(move(Op::evict, Matter::weights, x.first));
  }
  return result;
}

}  // namespace weft
