#include "weft/program/passes/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "weft/base/error.h"
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

class Closer {
 public:
  Closer(const InstructionList& list, const Program& program, const std::vector<Bucket>& buckets)
      : list_(list), program_(program), buckets_(buckets), per_slot_(program.micro_batches / program.slots) {}

  InstructionList run() const {
    const int last_slot = program_.slots - 1;
    std::vector<Insertion> insertions;
    for (const Bucket& range : ranges()) {
      for (int slot = 0; slot < last_slot; ++slot) {
        insertions.push_back({last_write_of(range, slot), combine(range, slot, false)});
      }
    }
    for (const Bucket& bucket : buckets_) {
      insertions.push_back(
          {last_gradient_write(list_, bucket.first, bucket.last, program_.block_uses), combine(bucket, last_slot, true)});
    }
    return insert(list_, insertions);
  }

 private:
  bool writes(const Instruction& x, const Bucket& range) const {
    return writes_gradients(x, range.first, range.last, program_.block_uses);
  }

  int last_write_of(const Bucket& range, int slot) const {
    for (int i = static_cast<int>(list_.size()) - 1; i >= 0; --i) {
      if (list_[i].micro / per_slot_ == slot && writes(list_[i], range)) return i;
    }
    return -1;
  }

  bool takes_slots_in_turn(const Bucket& range) const {
    int slot = 0;
    for (const Instruction& x : list_) {
      if (!writes(x, range)) continue;
      if (x.micro / per_slot_ < slot) return false;
      slot = x.micro / per_slot_;
    }
    return true;
  }

  std::vector<Bucket> ranges() const {
    std::vector<Bucket> result;
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      for (int block = bucket->first; block < bucket->last; ++block) {
        const Bucket alone{.first = block, .last = block + 1, .bytes = program_.gradient_block_bytes(block)};
        if (!takes_slots_in_turn(alone)) refuse(block);
        if (!result.empty() && result.back().last == block) {
          const Bucket longer{.first = result.back().first, .last = block + 1, .bytes = result.back().bytes + alone.bytes};
          if (takes_slots_in_turn(longer)) {
            result.back() = longer;
            continue;
          }
        }
        result.push_back(alone);
      }
    }
    return result;
  }

  [[noreturn]] void refuse(int block) const {
    throw InputError(fmt::format(
        "layout: block '{}' shares its weights with a block that this rank runs backward at other times, so that its "
        "gradients mix micro-batches of different slots; with several slots a rank use a schedule with one stage a "
        "rank and whole backwards",
        program_.block_names[block]));
  }

  const InstructionList& list_;
  const Program& program_;
  const std::vector<Bucket>& buckets_;
  int per_slot_;
};

}  // namespace

InstructionList close_slots(const InstructionList& list, const Program& program, const SlotOptions& options) {
  if (program.slots == 1) return list;
  return Closer(list, program, options.buckets).run();
}

}  // namespace weft
