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

int count_loads(const InstructionList& list) {
  return static_cast<int>(std::count_if(list.begin(), list.end(), [](const Instruction& x) { return x.op == Op::load; }));
}

int last_backward_of(const InstructionList& list, int slot, int micro_batches_per_slot) {
  for (int i = static_cast<int>(list.size()) - 1; i >= 0; --i) {
    if (list[i].op == Op::backward && list[i].micro / micro_batches_per_slot == slot) return i;
  }
  return -1;
}

}  // namespace

InstructionList close_slots(const InstructionList& list, const SlotOptions& options) {
  if (options.slots == 1) return list;
  const int per_slot = count_loads(list) / options.slots;
  const int last_slot = options.slots - 1;
  const Bucket all = whole(options.buckets);
  std::vector<Insertion> insertions;
  insertions.reserve(last_slot + options.buckets.size());
  for (int slot = 0; slot < last_slot; ++slot) {
    insertions.push_back({last_backward_of(list, slot, per_slot), combine(all, slot, false)});
  }
  for (const Bucket& bucket : options.buckets) {
    insertions.push_back(
        {last_gradient_write(list, bucket.first, bucket.last, options.uses), combine(bucket, last_slot, true)});
  }
  return insert(list, insertions);
}

}  // namespace weft
