#include "weft/engine/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <utility>

namespace weft {

namespace {

double host_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

c10::Event mark_on(c10::Device device) {
  c10::Event event(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // with times
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

}  // namespace

void StepClock::begin() {
  times_.clear();
  marks_.clear();
  if (!on_ || device_.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  begin_s_ = host_seconds();
  begin_ = mark_on(device_);
}

void StepClock::put(double InstructionTime::*time, Mark Marks::*mark, int index) {
  const auto place = static_cast<size_t>(index);
  if (device_.is_cpu()) {
    times_[place].*time = host_seconds();
  } else {
    marks_[place].*mark = mark_on(device_);
  }
}

void StepClock::start(int index) {
  if (!on_) return;
  times_.resize(static_cast<size_t>(index) + 1);
  if (!device_.is_cpu()) marks_.resize(times_.size());
  put(&InstructionTime::start_s, &Marks::start, index);
}

void StepClock::end(int index) {
  if (on_) put(&InstructionTime::end_s, &Marks::end, index);
}

void StepClock::waited(int index) {
  if (on_ && static_cast<size_t>(index) < times_.size()) put(&InstructionTime::end_s, &Marks::end, index);
}

const std::vector<InstructionTime>& StepClock::times() const {
  if (marks_.empty()) return times_;
  mark_on(device_).synchronize();  // after all of them
  const auto seconds = [this](const Mark& mark) { return mark ? begin_s_ + 1e-3 * begin_->elapsedTime(*mark) : begin_s_; };
  for (size_t i = 0; i < marks_.size(); ++i) times_[i] = {.start_s = seconds(marks_[i].start), .end_s = seconds(marks_[i].end)};
  marks_.clear();
  return times_;
}

}  // namespace weft
