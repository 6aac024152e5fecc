#include "weft/program/passes/noise_squares.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "weft/program/edit.h"

namespace weft {
namespace {

// Position where micro-batch `micro`, and no later one, has been added to a block's gradients, or -1.
int place_after(const InstructionList& list, const std::vector<int>& writes, int micro) {
  int after = -1;
  bool is_later = false;
  for (const int at : writes) {
    if (!adds_gradients(list[at].op)) continue;
    if (list[at].micro == micro && is_later) return -1;
    is_later |= list[at].micro > micro;
    if (list[at].micro == micro) after = at;
  }
  return after;
}

std::string shared_weights(const Program& program, int block) {
  return fmt::format(
      "layout: block '{}' shares its weights with another stage, so no rank has the gradients of one micro-batch; leave out "
      "run.noise_scale, or keep such blocks on one stage (model.tied_embeddings = false)",
      program.block_names[block]);
}

}  // namespace

Found<InstructionList> add_noise_squares(InstructionList list, const Program& program) {
  const int per_slot = program.micro_batches / program.slots;
  const Positions writes = gradient_writes(list, program.block_uses);
  const std::vector<int> held = held_blocks(list, program.block_uses);
  std::vector<Insertion> insertions;
  insertions.reserve(held.size() * static_cast<size_t>(program.slots));
  for (const int block : held) {
    if (program.block_numel[block] == 0) continue;
    if (program.num_holders(block) > 1) return {.why_not = shared_weights(program, block)};
    for (int slot = 0; slot < program.slots; ++slot) {
      const int micro = slot * per_slot;
      const int after = place_after(list, writes[block], micro);
      if (after < 0) return {.why_not = shared_weights(program, block)};
      insertions.push_back({after, {.op = Op::squares, .first = block, .last = block + 1, .micro = micro}});
    }
  }
  return {.value = insert(std::move(list), std::move(insertions))};
}

}  // namespace weft
