// MetricsLines: reads lines of metrics.jsonl; one reader per part of the file (read_records.h).
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/report/records/metrics.h"

namespace weft {

/// What a step has instead of a value.
inline constexpr double kNotRecorded = std::numeric_limits<double>::quiet_NaN();

/// Reads whole lines into metrics of its own.
class MetricsLines {
 public:
  explicit MetricsLines(const std::vector<std::string>& wanted) : wanted_(&wanted) {}
  void take_lines(std::string_view lines);
  /// Adds what was read to `all`, whose columns may be shorter than its steps; forgets it.
  void move_to(Metrics& all);

 private:
  struct Place {
    std::string name;
    size_t column;
  };

  void take(std::string_view line);
  void undo();
  bool take_plain(std::string_view line);
  bool take_any(std::string_view line);
  size_t place_of(std::string_view name);
  bool put(size_t place, double value);

  const std::vector<std::string>* wanted_;
  Metrics metrics_;
  std::unordered_map<std::string, size_t> index_;  ///< of columns, by name
  std::vector<Place> places_;                      ///< of the last line's names: the next line's are most likely the same
  size_t steps_before_ = 0, columns_before_ = 0;   ///< the line
};

}  // namespace weft
