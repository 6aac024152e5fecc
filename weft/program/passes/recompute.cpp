#include "weft/program/passes/recompute.h"

#include <utility>
#include <vector>

#include "weft/program/edit.h"

namespace weft {
namespace {

bool computes(const Instruction& x) { return x.op == Op::forward || x.op == Op::loss || is_backward(x.op); }

// Index of the next forward, backward or loss after `i`, or the end.
size_t next_step(const InstructionList& list, size_t i) {
  for (++i; i < list.size(); ++i) {
    if (computes(list[i])) break;
  }
  return i;
}

// True if backward of the same block follows this forward, with at most the loss between them.
bool turns_at(const InstructionList& list, size_t forward) {
  size_t next = next_step(list, forward);
  if (next < list.size() && list[next].op == Op::loss) next = next_step(list, next);
  return next < list.size() && is_backward(list[next].op) && list[next].first == list[forward].first &&
         list[next].micro == list[forward].micro;
}

// The instruction that takes the forward's output: the forward of the next block, or a send. -1 if only the loss does.
int taker_of(const InstructionList& list, size_t forward, size_t num_blocks) {
  const Instruction& x = list[forward];
  if (x.last == static_cast<int>(num_blocks)) return -1;
  for (size_t i = forward + 1; i < list.size(); ++i) {
    const Instruction& y = list[i];
    if (y.micro != x.micro) continue;
    const bool next_block = y.op == Op::forward && y.first == x.first + 1;
    const bool sent = y.op == Op::send && y.what == Payload::activation && y.first == x.first;
    if (next_block || sent) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

InstructionList recompute(InstructionList list, const ModelCost& model, const RecomputeOptions& options) {
  if (options.every == 0) return list;
  const size_t num_blocks = model.blocks.size();
  std::vector<std::vector<bool>> chosen(num_blocks);  // by block and micro-batch
  const auto is_chosen = [&](int block, int micro) {
    return block >= 0 && static_cast<int>(chosen[block].size()) > micro && chosen[block][micro];
  };
  std::vector<Insertion> insertions;
  for (size_t i = 0; i < list.size(); ++i) {
    const Instruction& x = list[i];
    if (x.op == Op::forward) {
      const BlockCost& cost = model.blocks[x.first];
      const int taker = x.first % options.every == 0 && !turns_at(list, i) ? taker_of(list, i, num_blocks) : -1;
      if (taker < 0) continue;
      std::vector<bool>& micros = chosen[x.first];
      if (static_cast<int>(micros.size()) <= x.micro) micros.resize(x.micro + 1, false);
      micros[x.micro] = true;
      // An output that the next block took as input stays live; a sent one does not.
      const int64_t output = list[taker].op == Op::send ? cost.made_bytes() : 0;
      insertions.push_back(
          {taker, {.op = Op::drop, .first = x.first, .last = x.last, .micro = x.micro, .frees = cost.saved_bytes + output}});
    }
    if (x.op != Op::backward && x.op != Op::backward_input) continue;
    const bool took_input = is_chosen(x.first - 1, x.micro);
    if (took_input) list[i].frees += model.blocks[x.first - 1].made_bytes();
    if (!is_chosen(x.first, x.micro)) continue;
    const BlockCost& cost = model.blocks[x.first];
    insertions.push_back({static_cast<int>(i) - 1,
                          {.op = Op::forward,
                           .first = x.first,
                           .last = x.last,
                           .micro = x.micro,
                           .flops = cost.forward_flops,
                           .peak = cost.forward_peak_bytes,
                           .allocates = cost.saved_bytes + cost.made_bytes()}});
  }
  return insert(std::move(list), std::move(insertions));
}

}  // namespace weft
