// CurrentInstruction: the instruction that a rank executes, for another thread that asks where it stands. Noting one is a
// store.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "weft/program/instruction.h"

namespace weft {

class CurrentInstruction {
 public:
  struct Place {
    int64_t step = -1;           ///< counted from 0
    std::optional<int> index{};  ///< in the rank's list; empty: in an evaluation
    Op op = Op::load;
    int block = 0;
    int micro = -1;
  };

  void begin_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }
  void set(const Instruction& x, int index) { set(x.op, x.first, x.micro, index); }
  void set_forward(int block) { set(Op::forward, block, -1, -1); }
  /// No instruction runs any more.
  void leave() { place_.store(0, std::memory_order_relaxed); }
  int64_t steps_begun() const { return step_.load(std::memory_order_relaxed) + 1; }
  /// Empty between steps. Blocks beyond 65 535 and instructions beyond a million are not told apart from earlier ones.
  std::optional<Place> now() const {
    const uint64_t place = place_.load(std::memory_order_relaxed);
    if (place == 0) return std::nullopt;
    const auto field = [place](int shift, uint64_t mask) { return static_cast<int>(place >> shift & mask); };
    const int index = field(40, kIndex) - 1;
    return Place{.step = step_.load(std::memory_order_relaxed),
                 .index = index < 0 ? std::nullopt : std::optional(index),
                 .op = static_cast<Op>(field(0, 0xff) - 1),
                 .block = field(8, 0xffff),
                 .micro = field(24, 0xffff) - 1};
  }

 private:
  static constexpr uint64_t kIndex = 0xfffff;

  void set(Op op, int block, int micro, int index) {
    const auto bits = [](int value, uint64_t mask, int shift) { return (static_cast<uint64_t>(value) & mask) << shift; };
    place_.store(
        (static_cast<uint64_t>(op) + 1) | bits(block, 0xffff, 8) | bits(micro + 1, 0xffff, 24) | bits(index + 1, kIndex, 40),
        std::memory_order_relaxed);
  }

  std::atomic<int64_t> step_ = -1;
  std::atomic<uint64_t> place_ = 0;  ///< from low bits: operation + 1, block (16), micro-batch + 1 (16), index + 1 (20)
};

}  // namespace weft
