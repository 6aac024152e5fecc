// Lists written as they read: load(0), forward(1, 0), ... and their programs.
#pragma once

#include <utility>
#include <vector>

#include "weft/engine/engine.h"
#include "weft/program/build/build.h"

namespace weft {

inline Instruction on_block(Op op, int block, int micro = -1) {
  const bool over_shards = op == Op::gather || op == Op::reduce_scatter || op == Op::gather_gradients;
  return {.op = op, .first = block, .last = block + 1, .micro = micro, .axes = over_shards ? kShardAxis : kNoAxes};
}
inline Instruction load(int micro) { return {.op = Op::load, .micro = micro}; }
inline Instruction forward(int block, int micro) { return on_block(Op::forward, block, micro); }
inline Instruction drop(int block, int micro) { return on_block(Op::drop, block, micro); }
inline Instruction loss(int micro) { return {.op = Op::loss, .micro = micro}; }
inline Instruction backward(int block, int micro) { return on_block(Op::backward, block, micro); }
inline Instruction reduce(int first, int last) {
  return {.op = Op::reduce, .lane = Lane::comm, .first = first, .last = last, .axes = kDataAxes};
}
inline Instruction reduce_loss() { return {.op = Op::reduce_loss, .lane = Lane::comm, .axes = kDataAxes}; }
inline Instruction update(int block, std::vector<int> waits = {}) {
  return {.op = Op::update, .first = block, .last = block + 1, .waits = std::move(waits)};
}
inline Instruction norm(int blocks) { return {.op = Op::norm, .first = 0, .last = blocks}; }
inline Instruction offload(Payload what, int block, int micro = -1) {
  return {.op = Op::offload, .lane = Lane::copy, .first = block, .last = block + 1, .micro = micro, .what = what};
}
inline Instruction reload(Payload what, int block, int micro = -1) {
  return {.op = Op::reload, .lane = Lane::copy, .first = block, .last = block + 1, .micro = micro, .what = what};
}

/// Program of one rank: one micro-batch after another, then the updates.
inline Program plain_program(int num_blocks, int micro_batches, int slots = 1) {
  ModelCost cost{.name = "test", .blocks = {}, .input_bytes = 0};
  for (int b = 0; b < num_blocks; ++b) cost.blocks.push_back({.name = "b", .numel = 64});
  return build_program(cost, {.micro_batches = micro_batches, .slots = slots});
}

/// Same, with a hand-written list.
inline Program with_list(InstructionList list, int num_blocks, int micro_batches) {
  Program program = plain_program(num_blocks, micro_batches);
  program.lists = {std::move(list)};
  return program;
}

inline EngineOptions local(int micro_batches) { return {.all_micro_batches = micro_batches}; }

}  // namespace weft
