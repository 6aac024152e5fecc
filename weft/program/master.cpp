#include "weft/program/master.h"

namespace weft {

MicroRange micros_run(const Program& program, int pp) {
  if (!program.master) return {.first = 0, .last = program.micro_batches};
  const int each = program.micro_batches / program.mesh.pp;
  return {.first = pp * each, .last = (pp + 1) * each};
}

MicroRange micros_run_by(const Program& program, int rank) {
  return micros_run(program, rank / (program.world_size() / program.mesh.pp));
}

MicroRange micros_of_slot(const Program& program, const MicroRange& micros, int slot) {
  const int each = (micros.last - micros.first) / program.slots;
  return {.first = micros.first + slot * each, .last = micros.first + (slot + 1) * each};
}

bool owns_model(const Program& program, int rank) { return !program.master || rank == 0; }

// Without its lowest one bit.
int tree_parent(int pp) { return pp & (pp - 1); }

std::vector<int> tree_children(int pp, int ranks) {
  std::vector<int> children;
  for (int bit = 1; pp + bit < ranks && (pp & bit) == 0; bit *= 2) children.push_back(pp + bit);
  return children;
}

}  // namespace weft
