#include "bench/published/gpipe.h"

#include <cmath>
#include <map>
#include <numeric>

#include "bench/published/table.h"
#include "weft/program/pipeline/task_times.h"
#include "weft/program/schedules/gpipe.h"

namespace weft::published {
namespace {

/// Mini-batches per unit of time; the forward of a whole mini-batch through the whole model takes 1.
double throughput(int ranks, int micro_batches) {
  const double part = 1.0 / (ranks * micro_batches);
  const Schedule schedule = gpipe_schedule({.ranks = ranks, .micro_batches = micro_batches});
  const std::vector<StageTimes> times(ranks, {part, part, part, part});
  return 1.0 / makespan(task_times(schedule, times));
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    double below = 0.0;
    double equal = 0.0;
    for (const double other : values) {
      below += other < value ? 1.0 : 0.0;
      equal += other == value ? 1.0 : 0.0;
    }
    ranks.push_back(below + (equal + 1.0) / 2.0);
  }
  return ranks;
}

}  // namespace

std::vector<GpipeRow> gpipe_rows(const std::string& path) {
  std::vector<GpipeRow> rows;
  std::map<std::string, double> first;  // by table and model
  for (const TableRow& fields : read_table(path)) {
    const auto published = number(fields, "relative_throughput");
    if (!published) continue;
    GpipeRow row{.table = fields.at("table_ref"),
                 .model = fields.at("model"),
                 .ranks = static_cast<int>(needed_number(fields, "pp")),
                 .micro_batches = static_cast<int>(needed_number(fields, "grad_accum")),
                 .published = *published};
    const double predicted = throughput(row.ranks, row.micro_batches);
    row.predicted = predicted / first.try_emplace(row.table + row.model, predicted).first->second;
    rows.push_back(row);
  }
  return rows;
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a);
  const std::vector<double> y = ranks_of(b);
  const double mean = (static_cast<double>(a.size()) + 1.0) / 2.0;
  double xy = 0.0;
  double xx = 0.0;
  double yy = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0.0 && yy > 0.0 ? xy / std::sqrt(xx * yy) : 0.0;
}

}  // namespace weft::published
