#include "weft/program/copies.h"

namespace weft {

MicroRange micros_run(const Program& program, int pp) {
  const int each = program.micro_batches / program.copies, copy = pp % program.copies;
  return {.first = copy * each, .last = (copy + 1) * each};
}

MicroRange micros_of_slot(const Program& program, const MicroRange& micros, int slot) {
  const int each = (micros.last - micros.first) / program.slots;
  return {.first = micros.first + slot * each, .last = micros.first + (slot + 1) * each};
}

bool owns_blocks(const Program& program, int pp) { return pp % program.copies == 0; }

// Clears the lowest one bit.
int tree_parent(int copy) { return copy & (copy - 1); }

std::vector<int> tree_children(int copy, int copies) {
  std::vector<int> children;
  for (int bit = 1; copy + bit < copies && (copy & bit) == 0; bit *= 2) children.push_back(copy + bit);
  return children;
}

}  // namespace weft
