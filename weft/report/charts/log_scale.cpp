#include "weft/report/charts/log_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weft {

LogScale::LogScale(double least, double most, double length) : least_(least), most_(most), length_(length) {
  constexpr double kLeastSpread = 2.0;
  if (most_ / least_ >= kLeastSpread) return;
  const double middle = std::sqrt(least_ * most_);
  least_ = middle / std::sqrt(kLeastSpread);
  most_ = middle * std::sqrt(kLeastSpread);
}

double LogScale::at(double value) const { return std::log(value / least_) / std::log(most_ / least_) * length_; }

std::vector<LogScale::Mark> LogScale::marks() const {
  constexpr double kManyDecades = 3.5, kRounding = 1e-9;
  const bool has_many = std::log10(most_ / least_) > kManyDecades;
  std::vector<Mark> result;
  for (int power = static_cast<int>(std::floor(std::log10(least_))); std::pow(10.0, power) <= most_ * (1 + kRounding);
       ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, power);
      if (value < least_ * (1 - kRounding) || value > most_ * (1 + kRounding)) continue;
      result.push_back({.position = at(value), .label = has_many && factor > 1.0 ? "" : axis_number(value)});
    }
  }
  return result;
}

std::vector<LogScale::Mark> LogScale::marks_at(std::vector<double> values, double distance) const {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::vector<Mark> result;
  double labelled = -distance;
  for (const double value : values) {
    const double position = at(value);
    const bool has_room = position - labelled >= distance;
    if (has_room) labelled = position;
    result.push_back({.position = position, .label = has_room ? axis_number(value) : ""});
  }
  return result;
}

std::string axis_number(double value) {
  if (value >= 1e6) return fmt::format("{:.4g} M", value / 1e6);
  if (value >= 1.0 && value == std::floor(value)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

}  // namespace weft
