// StepClock: records when each instruction of a step ran, for traces and profiles. Costs nothing while off.
//
// On a device times are those of events on its current stream, read after the step: the host does not wait within it, so
// instructions overlap as in any other step. A call of a group starts where the stream comes to it, and ends where the stream
// goes on after waiting for it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

#include "weft/engine/results.h"

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
  void end(int index);
  /// A waiter is done waiting for instruction `index`.
  void waited(int index);
  /// Times of the last step's instructions; on a device waits for the last of them.
  const std::vector<InstructionTime>& times() const;

 private:
  using Mark = std::optional<c10::Event>;
  struct Marks {
    Mark start, end;
  };

  void put(double InstructionTime::*time, Mark Marks::*mark, int index);

  c10::Device device_;
  bool on_ = false;
  double begin_s_ = 0.0;                        ///< of the host, when the device came to begin_
  Mark begin_;                                  ///< on a device
  mutable std::vector<Marks> marks_;            ///< on a device, until times() reads them
  mutable std::vector<InstructionTime> times_;  ///< by instruction
};

}  // namespace weft
