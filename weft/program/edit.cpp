#include "weft/program/edit.h"

#include <algorithm>

namespace weft {
namespace {

bool touches(const Instruction& x, int block, const std::vector<std::vector<int>>& uses) {
  return x.first == block || std::count(uses[x.first].begin(), uses[x.first].end(), block) > 0;
}

}  // namespace

InstructionList insert(const InstructionList& list, const std::vector<Insertion>& insertions) {
  std::vector<const Insertion*> sorted;
  sorted.reserve(insertions.size());
  for (const Insertion& x : insertions) sorted.push_back(&x);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->after < b->after; });
  InstructionList result;
  result.reserve(list.size() + sorted.size());
  auto next = sorted.begin();
  for (int at = -1; at < static_cast<int>(list.size()); ++at) {
    if (at >= 0) result.push_back(list[at]);
    for (; next != sorted.end() && (*next)->after == at; ++next) result.push_back((*next)->instruction);
  }
  return result;
}

bool runs(const Instruction& x, int block, const std::vector<std::vector<int>>& uses) {
  return (x.op == Op::forward || x.op == Op::backward || x.op == Op::backward_input) && touches(x, block, uses);
}

bool writes_gradients(const Instruction& x, int first, int last, const std::vector<std::vector<int>>& uses) {
  if (x.op == Op::combine) return x.first < last && first < x.last;
  if (!adds_gradients(x.op)) return false;
  for (int block = first; block < last; ++block) {
    if (touches(x, block, uses)) return true;
  }
  return false;
}

std::vector<int> held_blocks(const InstructionList& list, const std::vector<std::vector<int>>& uses) {
  std::vector<bool> held(uses.size(), false);
  for (const Instruction& x : list) {
    if (x.op != Op::forward) continue;
    held[x.first] = true;
    for (int used : uses[x.first]) held[used] = true;
  }
  std::vector<int> blocks;
  for (int block = 0; block < static_cast<int>(held.size()); ++block) {
    if (held[block]) blocks.push_back(block);
  }
  return blocks;
}

int last_gradient_write(const InstructionList& list, int first, int last, const std::vector<std::vector<int>>& uses) {
  for (int i = static_cast<int>(list.size()) - 1; i >= 0; --i) {
    if (writes_gradients(list[i], first, last, uses)) return i;
  }
  return -1;
}

}  // namespace weft
