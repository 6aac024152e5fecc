#include "weft/program/passes/offload.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace weft {
namespace {

Instruction move(Op op, Payload what, int block, int micro = -1) {
  return {.op = op, .lane = Lane::copy, .first = block, .last = block + 1, .micro = micro, .what = what};
}

/// An offloaded input of a block on a micro-batch, that is, the output of the block before it.
struct Moved {
  int64_t bytes = 0;    ///< 0: the block before keeps it for its own backward
  bool shared = false;  ///< the block before would otherwise have kept it till its backward
};

class Activations {
 public:
  Activations(const InstructionList& list, const ModelCost& model)
      : list_(list), model_(model), runs_(model.blocks.size(), false) {
    for (const Instruction& x : list) {
      if (x.op == Op::forward) runs_[x.first] = true;
    }
  }

  InstructionList offload() {
    for (const Instruction& x : list_) {
      const auto moved = moved_.find({x.first, x.micro});
      if (x.op == Op::forward && moved != moved_.end()) {
        result_.push_back(move(Op::reload, Payload::input, x.first, x.micro));
        result_.back().allocates = moved->second.bytes;
      }
      result_.push_back(x);
      if (x.op == Op::drop) offload(x);
      if (x.op == Op::backward || x.op == Op::backward_input) free_input(result_.back());
    }
    return std::move(result_);
  }

 private:
  void offload(const Instruction& drop) {
    dropped_.insert({drop.first, drop.micro});
    if (drop.first == 0) return;  // the first block's input is the micro-batch itself
    const BlockCost& before = model_.blocks[drop.first - 1];
    Moved moved{.bytes = before.made_bytes()};
    if (runs_[drop.first - 1] && dropped_.count({drop.first - 1, drop.micro}) == 0) {
      moved = {.bytes = before.keeps_output ? 0 : before.made_bytes(), .shared = !before.keeps_output};
    }
    moved_[{drop.first, drop.micro}] = moved;
    result_.push_back(move(Op::offload, Payload::input, drop.first, drop.micro));
    result_.back().frees = moved.bytes;
  }

  // A reloaded input belongs to this block, and is freed with its backward rather than that of the block before.
  void free_input(Instruction& backward) const {
    const auto bytes_of = [this, &backward](int block) {
      const auto moved = moved_.find({block, backward.micro});
      return moved != moved_.end() && moved->second.shared ? moved->second.bytes : 0;
    };
    backward.frees += bytes_of(backward.first) - bytes_of(backward.first + 1);
  }

  const InstructionList& list_;
  const ModelCost& model_;
  std::vector<bool> runs_;                      // by block
  std::set<std::pair<int, int>> dropped_;       // block and micro-batch
  std::map<std::pair<int, int>, Moved> moved_;  // by block and micro-batch
  InstructionList result_;
};

int64_t state_bytes(const BlockCost& cost, const Program& program, int block) {
  return kFloatBytes * (cost.states * program.block_numel[block] + cost.part_state) / program.shards;
}

}  // namespace

InstructionList offload_activations(InstructionList list, const ModelCost& model, const OffloadOptions& options) {
  if (!options.activations) return list;
  return Activations(list, model).offload();
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
      if (options.weights) result.push_back(move(Op::reload, Payload::weights, block));
      if (options.optimizer) result.push_back(move(Op::reload, Payload::optimizer, block));
      result.push_back({.op = Op::update, .first = block, .last = block + 1});
      if (options.optimizer) result.push_back(move(Op::offload, Payload::optimizer, block));
      if (options.weights) result.push_back(move(Op::offload, Payload::weights, block));
    }
  }
  return result;
}

InstructionList offload_shards(InstructionList list, const OffloadOptions& options) {
  if (!options.weights) return list;
  InstructionList result;
  for (const Instruction& x : list) {
    const bool from_shard = x.op == Op::gather && x.axes == kShardAxis;
    if (from_shard) result.push_back(move(Op::reload, Payload::weights, x.first));
    result.push_back(x);
    if (from_shard) result.push_back(move(Op::offload, Payload::weights, x.first));
  }
  return result;
}

void declare_copies(InstructionList& list, const ModelCost& model, const Program& program) {
  std::vector<bool> changed(program.num_blocks(), false);
  for (Instruction& x : list) {
    for (int block = x.first; x.op == Op::update && block < x.last; ++block) changed[block] = true;
    if (x.op != Op::offload && x.op != Op::reload) continue;
    const int block = x.first;
    if (x.what == Payload::input) x.copy_bytes = x.allocates + x.frees;
    if (x.what == Payload::optimizer) x.copy_bytes = state_bytes(model.blocks[block], program, block);
    if (x.what != Payload::weights) continue;
    const bool is_in = x.op == Op::reload;
    const int64_t numel = is_in ? program.weight_numel(block) : changed[block] ? program.block_numel[block] : 0;
    x.copy_bytes = kFloatBytes * numel / program.shards;
    if (!is_in) changed[block] = false;
  }
}

}  // namespace weft
