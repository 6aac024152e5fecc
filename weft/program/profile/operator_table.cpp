#include "weft/program/profile/operator_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "weft/base/error.h"
#include "weft/program/simulate/operator_time.h"

namespace weft {
namespace {

std::string shape_of(const OperatorWork& x) {
  const std::string batch = x.batch > 1 ? fmt::format("{} x ", x.batch) : "";
  switch (x.kind) {
    case OperatorKind::product:
      return fmt::format("{}[{}, {}] x [{}, {}]", batch, x.rows, x.inner, x.inner, x.columns);
    case OperatorKind::attention:
      return fmt::format("{}{} heads of {}, {} x {}", batch, x.heads, x.inner, x.rows, x.columns);
    case OperatorKind::memory:
      return {};
  }
  return {};
}

/// What the hardware says that a kernel takes; 0: nothing, as for a class of operators that it has no rate of.
double best_seconds(const PassOperators& work, const Hardware& hardware) {
  double seconds = 0.0;
  try {
    for (const OperatorWork& x : work) seconds += x.count * operator_seconds(x, hardware);
  } catch (const InputError&) {
    return 0.0;
  }
  return seconds;
}

}  // namespace

void each_kernel(const MeasuredStep& step, int rank, const std::function<void(int index, const MeasuredOperator& kernel)>& of) {
  const std::vector<MeasuredInstruction>& times = step.ranks[rank];
  for (const MeasuredOperator& x : step.operators[rank]) {
    if (!x.is_kernel) continue;
    const auto after = std::partition_point(times.begin(), times.end(), [&](const auto& t) { return t.start_s <= x.start_s; });
    of(after == times.begin() ? static_cast<int>(times.size()) : static_cast<int>(after - times.begin()) - 1, x);
  }
}

std::vector<OperatorRow> operator_table(const Program& program, const std::vector<MeasuredStep>& steps,
                                        const Hardware* hardware) {
  std::map<std::tuple<std::string, std::string, std::string>, OperatorRow> rows;
  double runs = 0.0;  // steps of ranks
  for (const MeasuredStep& step : steps) {
    for (int rank = 0; rank < static_cast<int>(step.operators.size()); ++rank) {
      if (step.operators[rank].empty()) continue;
      const std::vector<std::string> kinds = kinds_of(program.of(rank));
      runs += 1.0;
      each_kernel(step, rank, [&](int index, const MeasuredOperator& x) {
        const std::string kind = index < static_cast<int>(kinds.size()) ? kinds[index] : "";
        const std::string shape = x.work.empty() ? "" : shape_of(x.work.front());
        OperatorRow& row = rows[{x.name, kind, shape}];
        row.calls += 1.0;
        row.seconds += x.end_s - x.start_s;
        for (const OperatorWork& work : x.work) {
          row.flops += work.count * work.flops();
          if (work.kind == OperatorKind::memory) row.bytes += static_cast<double>(work.count) * static_cast<double>(work.bytes);
        }
        if (hardware) row.best_s += best_seconds(x.work, *hardware);
      });
    }
  }
  std::vector<OperatorRow> table;
  for (auto& [key, row] : rows) {
    std::tie(row.name, row.kind, row.shape) = key;
    for (double* value : {&row.calls, &row.seconds, &row.flops, &row.bytes, &row.best_s}) *value /= runs;
    table.push_back(std::move(row));
  }
  std::stable_sort(table.begin(), table.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return table;
}

}  // namespace weft
