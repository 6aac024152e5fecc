#include "weft/program/passes/slots.h"

#include <algorithm>
#include <bit>

#include "weft/program/edit.h"

namespace weft {
namespace {

Instruction combine(const Bucket& range, int slot, bool is_last) {
  // Stashes are the one bits of the number of closed slots: closing slot s turns its trailing ones into a single stash, or,
  // for the last slot, into none.
  const int merged = std::countr_one(static_cast<unsigned>(slot));
  const int stashes_made = is_last ? 0 : 1;
  const int change = stashes_made - merged;
  return {.op = Op::combine,
          .first = range.first,
          .last = range.last,
          .slot = slot,
          .allocates = std::max(change, 0) * range.bytes,
          .frees = std::max(-change, 0) * range.bytes};
}

int last_write_of(const InstructionList& list, const Bucket& blocks, int slot, const SlotOptions& options) {
  const int per_slot = options.micro_batches / options.slots;
  for (int i = static_cast<int>(list.size()) - 1; i >= 0; --i) {
    if (list[i].micro / per_slot == slot && writes_gradients(list[i], blocks.first, blocks.last, options.uses)) return i;
  }
  return -1;
}

}  // namespace

InstructionList close_slots(const InstructionList& list, const SlotOptions& options) {
  if (options.slots == 1) return list;
  const int last_slot = options.slots - 1;
  std::vector<Insertion> insertions;
  insertions.reserve(last_slot * options.stages.size() + options.buckets.size());
  for (const Bucket& stage : options.stages) {
    for (int slot = 0; slot < last_slot; ++slot) {
      insertions.push_back({last_write_of(list, stage, slot, options), combine(stage, slot, false)});
    }
  }
  for (const Bucket& bucket : options.buckets) {
    insertions.push_back(
        {last_gradient_write(list, bucket.first, bucket.last, options.uses), combine(bucket, last_slot, true)});
  }
  return insert(list, insertions);
}

}  // namespace weft
