#include "weft/program/passes/recompute.h"

#include <vector>

namespace weft {
namespace {

// The next forward, backward or loss after `i`, or the end.
size_t next_step(const InstructionList& list, size_t i) {
  for (++i; i < list.size(); ++i) {
    if (list[i].op == Op::forward || list[i].op == Op::backward || list[i].op == Op::loss) break;
  }
  return i;
}

// Forward, then at most the loss, then backward of the same block.
bool turns_at(const InstructionList& list, size_t forward) {
  size_t next = next_step(list, forward);
  if (next < list.size() && list[next].op == Op::loss) next = next_step(list, next);
  return next < list.size() && list[next].op == Op::backward && list[next].first == list[forward].first;
}

}  // namespace

InstructionList recompute(const InstructionList& list, const ModelCost& model, const RecomputeOptions& options) {
  if (options.every == 0) return list;
  std::vector<bool> chosen(model.blocks.size(), false);
  InstructionList result;
  int to_drop = -1;  // its output is the input of the forward that comes next
  for (size_t i = 0; i < list.size(); ++i) {
    Instruction x = list[i];
    const BlockCost* cost = x.op == Op::forward || x.op == Op::backward ? &model.blocks[x.first] : nullptr;
    if (x.op == Op::backward && chosen[x.first]) {
      result.push_back({.op = Op::forward,
                        .first = x.first,
                        .last = x.last,
                        .micro = x.micro,
                        .flops = cost->forward_flops,
                        .peak = cost->forward_peak_bytes,
                        .allocates = cost->saved_bytes + cost->output_bytes});
    }
    // The input that a forgetful block handed over lives until the backward of the block that got it.
    if (x.op == Op::backward && x.first > 0 && chosen[x.first - 1]) x.frees += model.blocks[x.first - 1].output_bytes;
    result.push_back(x);
    if (x.op != Op::forward) continue;
    if (to_drop >= 0) {
      result.push_back({.op = Op::drop,
                        .first = to_drop,
                        .last = to_drop + 1,
                        .micro = x.micro,
                        .frees = model.blocks[to_drop].saved_bytes});
      to_drop = -1;
    }
    if (x.first % options.every == 0 && !turns_at(list, i)) {
      chosen[x.first] = true;
      to_drop = x.first;
    }
  }
  return result;
}

}  // namespace weft
