#include "weft/program/draw/time_scale.h"

#include <fmt/format.h>

#include <cmath>

namespace weft {
namespace {

struct Unit {
  const char* name;
  double seconds;
};

// The largest unit that fits into the whole axis at least once.
Unit unit_of(double seconds) {
  constexpr Unit kUnits[] = {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}};
  for (const Unit& unit : kUnits) {
    if (seconds >= unit.seconds) return unit;
  }
  return {"ns", 1e-9};
}

// Smallest 1, 2 or 5 times a power of ten that is at least `step`.
double round_up_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1.0 - 1e-9)) return factor * power;
  }
  return 10.0 * power;
}

}  // namespace

std::vector<TimeScale::Mark> TimeScale::marks(double distance) const {
  if (seconds_ <= 0.0 || length_ <= 0.0) return {{.position = 0.0, .label = "0"}};
  const double step = round_up_step(seconds_ * distance / length_);
  const Unit unit = unit_of(seconds_);
  std::vector<Mark> result;
  for (int i = 0; i * step <= seconds_ * (1.0 + 1e-9); ++i) {
    // Six digits hide the binary rounding of 0.3.
    result.push_back({.position = at(i * step), .label = fmt::format("{:.6g}", i * step / unit.seconds)});
  }
  return result;
}

std::string TimeScale::unit() const { return unit_of(seconds_).name; }

}  // namespace weft
