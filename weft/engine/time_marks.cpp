#include "weft/engine/time_marks.h"

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

TimeMarks::TimeMarks(c10::Device device) : device_(device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  begin_s_ = host_seconds();
  marks_.push_back(mark_on(device));
}

int TimeMarks::put() {
  if (device_.is_cpu()) {
    times_.push_back(host_seconds());
    return static_cast<int>(times_.size()) - 1;
  }
  marks_.push_back(mark_on(device_));
  return static_cast<int>(marks_.size()) - 1;
}

double TimeMarks::seconds(int mark) const {
  const auto place = static_cast<size_t>(mark);
  if (device_.is_cpu()) return times_[place];
  marks_[place].synchronize();
  return begin_s_ + 1e-3 * marks_.front().elapsedTime(marks_[place]);
}

}  // namespace weft
