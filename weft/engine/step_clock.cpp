#include "weft/engine/step_clock.h"

namespace weft {

void StepClock::begin() {
  times_.clear();
  of_.clear();
  marks_.reset();
  if (on_) marks_.emplace(device_);
}

void StepClock::start(int index) {
  if (!on_) return;
  of_.resize(static_cast<size_t>(index) + 1);
  const int mark = marks_->put();
  of_.back() = {mark, mark, mark};
}

void StepClock::end(int index, double inner_s) {
  if (!on_) return;
  Marks& marks = of_[static_cast<size_t>(index)];
  marks.issued = marks.end = marks_->put();
  marks.inner_s = inner_s;
}

void StepClock::waited(int index) {
  if (on_ && static_cast<size_t>(index) < of_.size()) of_[static_cast<size_t>(index)].end = marks_->put();
}

const std::vector<InstructionTime>& StepClock::times() const {
  if (!times_.empty()) return times_;
  for (const Marks& x : of_) {
    times_.push_back({.start_s = marks_->seconds(x.start),
                      .issued_s = marks_->seconds(x.issued),
                      .end_s = marks_->seconds(x.end),
                      .inner_s = x.inner_s});
  }
  return times_;
}

}  // namespace weft
