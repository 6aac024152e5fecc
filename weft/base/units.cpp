#include "weft/base/units.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace weft {
namespace {

// Three significant digits: 1.23, 12.3, 123.
std::string three_digits(double value) {
  const double size = std::fabs(value);
  // The bounds are those at which rounding would add a digit.
  const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

// `units` in rising order, each `factor` times the one before; values in the first unit are whole numbers.
std::string scaled(double value, double factor, std::span<const char* const> units) {
  size_t unit = 0;
  while (unit + 1 < units.size() && std::fabs(value) >= factor * (1 - 0.0005)) {
    // A value that would round up to one of the next unit is shown in that unit; a whole number just below stays.
    if (unit == 0 && std::fabs(std::round(value)) < factor) break;
    value /= factor;
    ++unit;
  }
  return fmt::format("{} {}", unit == 0 ? fmt::format("{:.0f}", value) : three_digits(value), units[unit]);
}

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(static_cast<double>(bytes), 1024.0, kUnits);
}

std::string format_flops(double flops) {
  static constexpr const char* kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"};
  return scaled(flops, 1000.0, kUnits);
}

std::string format_count(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  if (std::fabs(count) < 999.5 && count != std::round(count)) return three_digits(count);
  return trimmed(scaled(count, 1000.0, kUnits));
}

std::string format_duration(double seconds) {
  if (seconds == 0.0) return "0 s";
  constexpr double kAge = 1e15;  // longer than any real duration
  if (!std::isfinite(seconds) || std::abs(seconds) > kAge) return "unknown";
  if (seconds < 0.0) return fmt::format("-{}", format_duration(-seconds));
  if (seconds < 0.9995e-6) return three_digits(seconds * 1e9) + " ns";
  if (seconds < 0.9995e-3) return three_digits(seconds * 1e6) + " us";
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 59.95) return three_digits(seconds) + " s";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const int64_t minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string counted(int64_t count, std::string_view noun, std::string_view ending) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : ending);
}

}  // namespace weft
