#include "weft/program/passes/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "weft/program/copies.h"
#include "weft/program/edit.h"

namespace weft {
namespace {

Instruction combine(const Bucket& range, int slot, bool is_last) {
  // There is one stash per one bit of the number of closed slots: closing slot s merges those of its trailing ones into a
  // single stash or, for the last slot, into the gradients.
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

// A range of blocks, and the first and last additions to its gradients in each slot.
struct Range {
  Bucket blocks;
  std::vector<int> first, last;  // by slot; without additions the highest number, and -1

  bool takes_slots_in_turn() const {
    int latest = -1;
    for (size_t slot = 0; slot < last.size(); ++slot) {
      if (last[slot] < 0) continue;
      if (first[slot] < latest) return false;
      latest = last[slot];
    }
    return true;
  }

  Range joined(const Range& next) const {
    Range both = *this;
    both.blocks.last = next.blocks.last;
    both.blocks.bytes += next.blocks.bytes;
    for (size_t slot = 0; slot < last.size(); ++slot) {
      both.first[slot] = std::min(first[slot], next.first[slot]);
      both.last[slot] = std::max(last[slot], next.last[slot]);
    }
    return both;
  }
};

class Closer {
 public:
  Closer(const InstructionList& list, const Program& program, const SlotOptions& options)
      : list_(list),
        program_(program),
        buckets_(options.buckets),
        micros_(micros_run(program, options.pp)),
        per_slot_((micros_.last - micros_.first) / program.slots),
        writes_(gradient_writes(list, program.block_uses)) {}

  /// Reason why slots cannot be closed in this range; empty if they can.
  std::string why_not() const {
    for (const Bucket& bucket : buckets_) {
      for (int block = bucket.first; block < bucket.last; ++block) {
        if (mixes_slots(block)) return refusal(block);
      }
    }
    return {};
  }

  std::vector<Insertion> run() const {
    const int last_slot = program_.slots - 1;
    std::vector<Insertion> insertions;
    for (const Range& range : ranges()) {
      for (int slot = 0; slot < last_slot; ++slot) {
        insertions.push_back({range.last[slot], combine(range.blocks, slot, false)});
      }
    }
    for (const Bucket& bucket : buckets_) {
      insertions.push_back({last_position(writes_, bucket.first, bucket.last), combine(bucket, last_slot, true)});
    }
    return insertions;
  }

 private:
  int slot_of(int at) const { return (list_[at].micro - micros_.first) / per_slot_; }

  bool mixes_slots(int block) const {
    const auto earlier_slot = [this](int a, int b) { return slot_of(a) < slot_of(b); };
    return !std::is_sorted(writes_[block].begin(), writes_[block].end(), earlier_slot);
  }

  Range alone(int block) const {
    Range range{.blocks = {.first = block, .last = block + 1, .bytes = program_.gradient_block_bytes(block)},
                .first = std::vector<int>(program_.slots, std::numeric_limits<int>::max()),
                .last = std::vector<int>(program_.slots, -1)};
    for (const int at : writes_[block]) {
      const int slot = slot_of(at);
      range.first[slot] = std::min(range.first[slot], at);
      range.last[slot] = at;
    }
    return range;
  }

  std::vector<Range> ranges() const {
    std::vector<Range> result;
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      for (int block = bucket->first; block < bucket->last; ++block) {
        Range next = alone(block);
        if (!result.empty() && result.back().blocks.last == block) {
          Range longer = result.back().joined(next);
          if (longer.takes_slots_in_turn()) {
            result.back() = std::move(longer);
            continue;
          }
        }
        result.push_back(std::move(next));
      }
    }
    return result;
  }

  std::string refusal(int block) const {
    return fmt::format(
        "layout: block '{}' shares its weights with a block that this rank runs backward at other times, so its "
        "gradients mix micro-batches of different slots; with several slots per rank use a schedule with one stage per "
        "rank and whole backwards",
        program_.block_names[block]);
  }

  const InstructionList& list_;
  const Program& program_;
  const std::vector<Bucket>& buckets_;
  MicroRange micros_;
  int per_slot_;
  Positions writes_;
};

}  // namespace

Found<InstructionList> close_slots(InstructionList list, const Program& program, const SlotOptions& options) {
  if (program.slots == 1) return {.value = std::move(list)};
  const Closer closer(list, program, options);
  std::string why_not = closer.why_not();
  if (!why_not.empty()) return {.why_not = std::move(why_not)};
  std::vector<Insertion> insertions = closer.run();
  return {.value = insert(std::move(list), std::move(insertions))};
}

}  // namespace weft
