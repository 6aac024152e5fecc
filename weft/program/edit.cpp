#include "weft/program/edit.h"

#include <algorithm>

namespace weft {

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

int last_gradient_write(const InstructionList& list, int first, int last) {
  for (int i = static_cast<int>(list.size()) - 1; i >= 0; --i) {
    const Instruction& x = list[i];
    const bool writes = x.op == Op::backward || x.op == Op::combine;
    if (writes && x.first < last && first < x.last) return i;
  }
  return -1;
}

}  // namespace weft
