// Programs for simulate(), written out instruction by instruction: replicas, or two stages.
#pragma once

#include <utility>
#include <vector>

#include "tests/program/toy.h"

namespace weft {

inline Instruction forward(double flops, std::vector<int> waits = {}) {
  return {.op = Op::forward, .first = 0, .last = 1, .micro = 0, .waits = std::move(waits), .flops = flops};
}
inline Instruction backward(double flops) { return {.op = Op::backward, .first = 0, .last = 1, .micro = 0, .flops = flops}; }
inline Instruction reduce(int64_t wire_bytes, std::vector<int> waits) {
  return {.op = Op::reduce,
          .lane = Lane::comm,
          .first = 0,
          .last = 1,
          .axes = kDataAxes,
          .waits = std::move(waits),
          .wire_bytes = wire_bytes};
}

// Data-parallel ranks, each with its own list.
inline Program data_parallel(std::vector<InstructionList> lists) {
  Program program = toy_program(toy_model(1, 0));
  program.replicas = program.mesh.dp = static_cast<int>(lists.size());
  for (int rank = 0; rank < program.replicas; ++rank) program.list_of_rank.push_back(rank);
  program.lists = std::move(lists);
  program.buffers.resize(program.lists.size());
  return program;
}

inline Program copies(const InstructionList& list, int ranks) {
  Program program = data_parallel({list});
  program.replicas = program.mesh.dp = ranks;
  program.list_of_rank.assign(ranks, 0);
  return program;
}

inline Instruction transfer(Op op, int peer, int64_t bytes, std::vector<int> waits = {}) {
  return {.op = op,
          .lane = Lane::comm,
          .first = 0,
          .last = 1,
          .micro = 0,
          .what = Payload::activation,
          .peer = peer,
          .waits = std::move(waits),
          .wire_bytes = op == Op::send ? bytes : 0};
}

// Two pipeline ranks.
inline Program two_stages(InstructionList first, InstructionList second) {
  Program program = data_parallel({std::move(first), std::move(second)});
  program.replicas = 1;
  program.mesh = {.pp = 2};
  return program;
}

}  // namespace weft
