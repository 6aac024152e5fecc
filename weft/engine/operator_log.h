// OperatorLog: the operators of a step, and when they ran, for profiles.
//
// On a device a kernel's times are those of events around it on the current stream: of the device, with what it waited for its
// launch. Costs some microseconds per operator.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "weft/engine/operator_observer.h"
#include "weft/program/profile/measured_step.h"

namespace weft {

/// Observes this thread's operators while alive, and those of autograd's threads that run its backwards.
class OperatorLog {
 public:
  explicit OperatorLog(c10::Device device);

  /// What has returned so far, on the clock of InstructionTime; on a device waits for the last of them.
  std::vector<MeasuredOperator> operators() const;

 private:
  struct Watch;
  std::shared_ptr<Watch> watch_;
  OperatorObserver observer_;
};

}  // namespace weft
