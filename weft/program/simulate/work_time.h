// WorkTime: how long an instruction computes on its own rank, without waiting for anybody.
//
// Measured times where the hardware has them. Otherwise the slower of operations at the peak times its efficiency, and bytes
// through the device's memory (Williams et al. 2009, the roofline): what an instruction makes or frees passes twice, weights
// once, gradients that are added to once. An update is taken to be Adam's: gradient read, weights and two states read and
// written.
#pragma once

#include <vector>

#include "weft/program/program.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

class WorkTime {
 public:
  /// Both must outlive it.
  WorkTime(const Program& program, const Hardware& hardware);

  /// The time of an instruction on the compute lane, launch included. 0 for those that move bytes, for load (which was read
  /// ahead), and for release and drop, which only forget.
  double seconds(const Instruction& instruction) const;

  /// Whether that time was measured: what the block sends while it runs is in it.
  bool is_measured(const Instruction& instruction) const { return measured(instruction).has_value(); }

  /// The time of an offload or a reload. Throws InputError where the hardware does not tell the link.
  double copy_seconds(const Instruction& instruction) const;

 private:
  std::optional<double> measured(const Instruction& instruction) const;
  double moved_bytes(const Instruction& instruction) const;
  double elements(const Instruction& instruction) const;  // of its blocks
  double owned(const Instruction& instruction) const;     // of them, this rank's

  const Program& program_;
  const Hardware& hardware_;
  std::vector<const BlockTime*> times_;  // by block
  double rate_ = 0.0;                    // operations a second
};

}  // namespace weft
