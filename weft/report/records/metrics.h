// Metrics: what metrics.jsonl says, as columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/report/records/record.h"

namespace weft {

inline constexpr size_t kMostNames = 500;  ///< of values: each takes 8 bytes a step

/// A value of every step; NaN where a step has none.
struct MetricColumn {
  std::string name;
  std::vector<double> values = {};
};

/// What metrics.jsonl says.
struct Metrics {
  std::vector<int64_t> steps = {};         ///< steps done, rising
  std::vector<double> times_s = {};        ///< since 1970, UTC; by step
  std::vector<MetricColumn> columns = {};  ///< in the order in which they first come
  std::vector<EvaluationRecord> evaluations = {};
  int64_t damaged_lines = 0;    ///< left out
  bool has_more_names = false;  ///< than kMostNames: values of the others are left out

  const std::vector<double>* column(std::string_view name) const;  ///< null: no step has such a value
};

}  // namespace weft
