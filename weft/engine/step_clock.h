// StepClock: records when each instruction of a step ran, for traces and profiles. Costs nothing while off.
//
// On a device times are those of events on its current stream, read after the step: the host does not wait within it, so
// instructions overlap as in any other step. A call of a group starts where the stream comes to it, and ends where the stream
// goes on after waiting for it.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <vector>

#include "weft/engine/results.h"
#include "weft/engine/time_marks.h"

namespace weft {

class StepClock {
 public:
  explicit StepClock(c10::Device device) : device_(device) {}

  void turn(bool on) { on_ = on; }
  bool is_on() const { return on_; }
  /// A step begins; on a device, if on, the host waits for what came before.
  void begin();
  /// Instruction `index` starts, after its waits.
  void start(int index);
  /// It has been issued; `inner_s` as in InstructionTime.
  void end(int index, double inner_s = 0.0);
  /// A waiter is done waiting for instruction `index`.
  void waited(int index);
  /// Times of the last step's instructions; on a device waits for the last of them.
  const std::vector<InstructionTime>& times() const;

 private:
  struct Marks {
    int start = 0, issued = 0, end = 0;
    double inner_s = 0.0;
  };

  c10::Device device_;
  bool on_ = false;
  std::optional<TimeMarks> marks_;              ///< of the last step
  std::vector<Marks> of_;                       ///< by instruction
  mutable std::vector<InstructionTime> times_;  ///< read from the marks
};

}  // namespace weft
