// StepClock: records when each instruction of a step ran, for traces and profiles. Costs nothing while off.
#pragma once

#include <c10/core/Device.h>

#include <vector>

#include "weft/engine/results.h"

namespace weft {

class StepClock {
 public:
  explicit StepClock(c10::Device device) : device_(device) {}

  void turn(bool on) { on_ = on; }
  void begin() { times_.clear(); }
  /// Instruction `index` starts, after its waits.
  void start(int index);
  void end(int index);
  /// A waiter is done waiting for instruction `index`.
  void waited(int index);
  const std::vector<InstructionTime>& times() const { return times_; }

 private:
  double now() const;

  c10::Device device_;
  bool on_ = false;
  std::vector<InstructionTime> times_;
};

}  // namespace weft
