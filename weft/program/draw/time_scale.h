// TimeScale: maps seconds to positions along an axis, and places its marks.
#pragma once

#include <string>
#include <vector>

namespace weft {

class TimeScale {
 public:
  /// `length` is the axis length that `seconds` takes.
  TimeScale(double seconds, double length) : seconds_(seconds), length_(length) {}

  double at(double time_s) const { return seconds_ > 0.0 ? time_s / seconds_ * length_ : 0.0; }
  double length() const { return length_; }

  struct Mark {
    double position = 0.0;
    std::string label;  ///< without the unit
  };
  /// Marks at round times (1, 2 or 5 times a power of ten), `distance` or more apart, from 0.
  std::vector<Mark> marks(double distance) const;
  /// The unit of the labels: "s", "ms", "us" or "ns".
  std::string unit() const;

 private:
  double seconds_, length_;
};

}  // namespace weft
