// WorkTime: compute time of an instruction on its own rank, without waiting for other ranks.
//
// Uses measured times if the hardware has them. With the hardware's OperatorCosts, sums up the operators of a pass
// (operator_time.h), and bytes through memory of updates, norms and sums. Otherwise takes the slower of operations, at the peak
// rate times the efficiency, and memory traffic (the roofline, Williams et al. 2009): data that an instruction allocates or
// frees crosses memory twice, weights once, gradients that are added to once. Updates count as Adam's: gradient read, weights
// and two states read and written.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "weft/program/program.h"
#include "weft/program/simulate/computing_times.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

class WorkTime {
 public:
  /// Both arguments must outlive this object.
  WorkTime(const Program& program, const Hardware& hardware);
  WorkTime(const WorkTime&) = delete;
  WorkTime& operator=(const WorkTime&) = delete;

  /// Time of an instruction on the compute lane, launch included. 0 for instructions that move bytes, for load (read ahead),
  /// and for release and drop, which only free memory.
  double seconds(const Instruction& instruction) const { return times(instruction).total(); }

  /// The same by kind of operator; overhead where only operations and bytes are known, or the time was measured.
  ComputingTimes times(const Instruction& instruction) const;

  /// True if the time of seconds() was measured, which includes the block's communication.
  bool is_measured(const Instruction& instruction) const { return measured(instruction).has_value(); }

  /// Time of an offload or a reload, 0 if it copies nothing. Throws InputError if the hardware does not know the link.
  double copy_seconds(const Instruction& instruction) const;

 private:
  std::optional<double> measured(const Instruction& instruction) const;
  ComputingTimes unmeasured(const Instruction& instruction) const;
  std::optional<ComputingTimes> by_operators(const Instruction& instruction) const;
  BlockPass pass_of(const Instruction& instruction) const;
  double moved_bytes(const Instruction& instruction) const;
  double elements(const Instruction& instruction) const;  // elements of its blocks
  double owned(const Instruction& instruction) const;     // this rank's part of the elements

  const Program& program_;
  const Hardware& hardware_;
  using TimesByPass = std::array<ComputingTimes, kNumPasses>;
  std::vector<const BlockTime*> times_;        // by block
  std::vector<const TimesByPass*> operators_;  // by block; null: not counted
  std::map<SharedOperators, TimesByPass> priced_;
  ComputingTimes loss_;  // of the loss's operators
  double rate_ = 0.0;    // operations per second
};

}  // namespace weft
