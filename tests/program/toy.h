// A model of round numbers, different for every block, and helpers to read a list.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "weft/program/build/stages.h"
#include "weft/program/program.h"
#include "weft/program/schedules/naive.h"

namespace weft {

inline ModelCost toy_model(int num_blocks, int64_t numel = 256) {
  ModelCost model{.name = "toy", .blocks = {}, .input_bytes = 7};
  for (int i = 0; i < num_blocks; ++i) {
    model.blocks.push_back({.name = fmt::format("layer{}", i),
                            .parameters = numel,
                            .numel = numel,
                            .forward_flops = 1000.0 + i,
                            .backward_flops = 2000.0 + 2 * i,
                            .saved_bytes = 100 + 10 * i,
                            .output_bytes = 40 + i});
  }
  return model;
}

/// A model whose last block also reads the weights of the first.
inline ModelCost tied_model(int num_blocks, int64_t numel = 256) {
  ModelCost model = toy_model(num_blocks, numel);
  model.blocks.back().uses = {0};
  return model;
}

/// Program as passes read it, without lists; `choices` sets the rest.
inline Program toy_program(const ModelCost& model, Program choices = {}) {
  for (const BlockCost& block : model.blocks) {
    choices.block_names.push_back(block.name);
    choices.block_numel.push_back(block.numel);
    choices.block_uses.push_back(block.uses);
  }
  return choices;
}

inline std::vector<int> all_blocks(const Program& program) {
  std::vector<int> blocks(program.num_blocks());
  for (int b = 0; b < program.num_blocks(); ++b) blocks[b] = b;
  return blocks;
}

/// The whole model on one rank, one micro-batch after another: the input of passes without a pipeline.
inline InstructionList one_stage(const ModelCost& model, int micro_batches = 1) {
  return stage_lists(model, naive_schedule({.ranks = 1, .micro_batches = micro_batches}),
                     {{0, static_cast<int>(model.blocks.size())}})[0];
}

inline std::string short_name(Payload what) { return what == Payload::optimizer ? "optimizer" : std::string(name(what)); }

/// "load0 gather0 forward0.0 release0 loss0 backward0.0 reduce_scatter0.0 reduce0-1 combine0-1s0 reduce_loss norm0-1
/// reload_weights0 update0-1": blocks, then micro or slot. The axis is shown if a rank may have the choice: reduce0-0@dp;
/// transfers to or from pipeline rank 1 as "send_activation0.0>1 receive_gradient0.0<1 send_sum0>1".
inline std::string text(const Instruction& x) {
  std::string result(name(x.op));
  switch (x.op) {
    case Op::load:
    case Op::loss:
      return result + fmt::format("{}", x.micro);
    case Op::forward:
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
    case Op::drop:
    case Op::reduce_scatter:
    case Op::squares:
      return result + fmt::format("{}.{}", x.first, x.micro);
    case Op::gather:
    case Op::release:
      return result + fmt::format("{}", x.first);
    case Op::offload:
    case Op::reload:
      result += fmt::format("_{}{}", short_name(x.what), x.first);
      return x.what == Payload::input ? result + fmt::format(".{}", x.micro) : result;
    case Op::send:
    case Op::receive:
      result += fmt::format("_{}{}", name(x.what), x.first);
      if (takes_micro_batch(x)) result += fmt::format(".{}", x.micro);
      return result + fmt::format("{}{}", x.op == Op::send ? '>' : '<', x.peer);
    case Op::reduce_loss:
      return x.axes.has(kPipelineAxis) ? result + "@" + name(x.axes) : result;
    case Op::combine:
    case Op::reduce:
    case Op::norm:
    case Op::gather_gradients:
    case Op::update:
      break;
  }
  result += fmt::format("{}-{}", x.first, x.last - 1);
  if (x.op == Op::combine) result += fmt::format("s{}", x.slot);
  const bool plain = x.axes.empty() || x.axes == kDataAxes;
  if (!plain) result += tied_block(x) >= 0 ? "@tied" : "@" + name(x.axes);
  return result;
}

inline std::string text(const InstructionList& list) {
  std::string result;
  for (const Instruction& x : list) result += (result.empty() ? "" : " ") + text(x);
  return result;
}

/// Index of the nth instruction (from 0) with this op, or -1.
inline int find(const InstructionList& list, Op op, int nth = 0) {
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (list[i].op == op && nth-- == 0) return i;
  }
  return -1;
}

/// Index of the nth instruction with this text(), or -1.
inline int find(const InstructionList& list, const std::string& called, int nth = 0) {
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (text(list[i]) == called && nth-- == 0) return i;
  }
  return -1;
}

inline int count(const InstructionList& list, Op op) {
  int result = 0;
  for (const Instruction& x : list) result += x.op == op ? 1 : 0;
  return result;
}

}  // namespace weft
