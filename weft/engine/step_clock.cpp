#include "weft/engine/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>

namespace weft {

double StepClock::now() const {
  if (!device_.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void StepClock::start(int index) {
  if (!on_) return;
  times_.resize(static_cast<size_t>(index) + 1);
  times_.back().start_s = now();
}

void StepClock::end(int index) {
  if (on_) times_[static_cast<size_t>(index)].end_s = now();
}

void StepClock::waited(int index) {
  if (on_ && static_cast<size_t>(index) < times_.size()) times_[static_cast<size_t>(index)].end_s = now();
}

}  // namespace weft
