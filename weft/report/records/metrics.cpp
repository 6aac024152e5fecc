#include "weft/report/records/metrics.h"

#include <algorithm>

namespace weft {

const std::vector<double>* Metrics::column(std::string_view name) const {
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const MetricColumn& one) { return one.name == name; });
  return found == columns.end() ? nullptr : &found->values;
}

}  // namespace weft
