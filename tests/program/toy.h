// A model of round numbers, different for every block, and ways to read a list.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "weft/program/program.h"

namespace weft {

inline ModelCost toy_model(int num_blocks, int64_t flat_bytes = 1024) {
  ModelCost model{.name = "toy", .blocks = {}, .input_bytes = 7};
  for (int i = 0; i < num_blocks; ++i) {
    model.blocks.push_back({.name = fmt::format("layer{}", i),
                            .parameters = flat_bytes / 4,
                            .flat_bytes = flat_bytes,
                            .forward_flops = 1000.0 + i,
                            .backward_flops = 2000.0 + 2 * i,
                            .saved_bytes = 100 + 10 * i,
                            .output_bytes = 40 + i});
  }
  return model;
}

/// "load0 forward0.0 loss0 backward0.0 reduce0-1 combine0-1s0 reduce_loss norm0-1 update0-1": blocks, then micro or slot.
inline std::string text(const InstructionList& list) {
  std::string result;
  for (const Instruction& x : list) {
    if (!result.empty()) result += ' ';
    result += name(x.op);
    const bool one_block = x.op == Op::forward || x.op == Op::backward;
    if (one_block) {
      result += fmt::format("{}.{}", x.first, x.micro);
    } else if (x.op == Op::load || x.op == Op::loss) {
      result += fmt::format("{}", x.micro);
    } else if (x.op != Op::reduce_loss) {
      result += fmt::format("{}-{}", x.first, x.last - 1);
    }
    if (x.op == Op::combine) result += fmt::format("s{}", x.slot);
  }
  return result;
}

/// Index of the nth instruction (from 0) with this op, or -1.
inline int find(const InstructionList& list, Op op, int nth = 0) {
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (list[i].op == op && nth-- == 0) return i;
  }
  return -1;
}

inline int count(const InstructionList& list, Op op) {
  int result = 0;
  for (const Instruction& x : list) result += x.op == op ? 1 : 0;
  return result;
}

}  // namespace weft
