// Published throughput of GPipe (Huang et al. 2019, arXiv:1811.06965: tables 2 and 3) and task_times()'s prediction.
//
// A mini-batch of fixed work is divided into M micro-batches over K equal partitions, each recomputed in its backward. A
// forward, each part of the backward and the recompute take the same time; transfers take none. A partition recomputes while it
// waits for the gradient, as in the paper, including the last one, which a weft program does not (passes/recompute.h): so tasks
// are timed, not a whole program. The authors changed the mini-batch size with K and M ("adjusted to fit memory"), which a
// pipeline model alone cannot follow: so the order is compared, not the figures.
#pragma once

#include <string>
#include <vector>

namespace weft::published {

struct GpipeRow {
  std::string table, model;
  int ranks = 1, micro_batches = 1;
  double published = 0.0;  ///< throughput, relative to the model's first row
  double predicted = 0.0;  ///< likewise
};

/// The rows of gpipe_2019.csv that have a throughput.
std::vector<GpipeRow> gpipe_rows(const std::string& path);

/// Spearman's: 1 when both have the same order, -1 when one has the other's reversed. Equal values share their mean rank.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace weft::published
