// Programs with a mistake that training on them does not notice by itself, made of the ones that trainers make.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "weft/program/passes/waits.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Puts a mistake into one list.
using Breakage = std::function<void(InstructionList& list)>;

/// A TrainedSteps::prepare: the trainer's own program for the mesh and options, broken, and given as verified.
inline std::function<void(const Mesh&, TrainerOptions&)> broken(std::function<Model()> model, OptimizerOptions optimizer,
                                                                Breakage breakage) {
  return [model = std::move(model), optimizer, breakage = std::move(breakage)](const Mesh& mesh, TrainerOptions& options) {
    auto program = std::make_shared<Program>(Trainer(mesh, model(), optimizer, options).program());
    for (size_t i = 0; i < program->lists.size(); ++i) {
      breakage(program->lists[i]);
      for (Instruction& x : program->lists[i]) x.waits.clear();
      program->lists[i] = link_waits(std::move(program->lists[i]), *program, program->buffers[i]);
    }
    options.program = std::move(program);
    options.program_is_verified = true;
  };
}

/// Removes all that begin at the block.
inline Breakage without_op(Op op, int block = 0) {
  return
      [=](InstructionList& list) { std::erase_if(list, [&](const Instruction& x) { return x.op == op && x.first == block; }); };
}

/// Takes out the second of a list only.
inline Breakage without_second(Op op, int block) {
  return [=](InstructionList& list) {
    int seen = 0;
    std::erase_if(list, [&](const Instruction& x) { return x.op == op && x.first == block && ++seen == 2; });
  };
}

/// Each comes twice in a row.
inline Breakage twice(Op op, int block) {
  return [=](InstructionList& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].op != op || list[i].first != block) continue;
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), list[i]);
      ++i;
    }
  };
}

/// They come after all else.
inline Breakage comes_last(Op op, int block) {
  return [=](InstructionList& list) {
    std::stable_partition(list.begin(), list.end(), [&](const Instruction& x) { return x.op != op || x.first != block; });
  };
}

inline Breakage over_axes(Op op, AxisSet axes) {
  return [=](InstructionList& list) {
    for (Instruction& x : list) {
      if (x.op == op) x.axes = axes;
    }
  };
}

}  // namespace weft
