#include "weft/report/history/figure_text.h"

#include <fmt/format.h>

#include <cmath>

#include "weft/base/units.h"

namespace weft {

std::string figure_text(double value) {
  return std::fabs(value) < 1e5 ? fmt::format("{:.4f}", value) : fmt::format("{:.3e}", value);
}

std::string recorded_bytes_text(double bytes) {
  constexpr double kMost = 1e18;
  return bytes >= 0.0 && bytes < kMost ? format_bytes(std::llround(bytes)) : "-";
}

}  // namespace weft
