#include "weft/base/parse_bytes.h"

#include <cmath>
#include <map>

#include "weft/base/parse_number.h"

namespace weft {

std::optional<double> parse_bytes(std::string_view text) {
  static const std::map<std::string_view, double> kUnits = {{"", 1.0},
                                                            {"B", 1.0},
                                                            {"kB", 1e3},
                                                            {"MB", 1e6},
                                                            {"GB", 1e9},
                                                            {"TB", 1e12},
                                                            {"KiB", 1024.0},
                                                            {"MiB", 1024.0 * 1024.0},
                                                            {"GiB", 1024.0 * 1024.0 * 1024.0},
                                                            {"TiB", 1024.0 * 1024.0 * 1024.0 * 1024.0}};
  const size_t end = text.find_last_of("0123456789.") + 1;  // of the number
  std::string_view unit = text.substr(end);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto factor = kUnits.find(unit);
  const std::optional<double> number = parse_number<double>(text.substr(0, end));
  if (factor == kUnits.end() || !number) return std::nullopt;
  const double bytes = *number * factor->second;
  return std::isfinite(bytes) && bytes > 0.0 ? std::optional(bytes) : std::nullopt;
}

}  // namespace weft
