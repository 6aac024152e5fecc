// The published throughput of GPipe (Huang et al. 2019, arXiv:1811.06965: tables 2 and 3) and what task_times() says of it.
//
// A mini-batch of fixed work is divided into M micro-batches over K equal partitions, each recomputed in its backward, where a
// forward, each part of the backward and the recompute take the same time and transfers take none. A partition recomputes
// while it waits for the gradient, as the paper does: the last one too, which a program of weft's does not
// (passes/recompute.h), so this is of tasks and not of a whole program. The authors changed the size of the mini-batch with K
// and M ("adjusted to fit memory"), which no model of the pipeline alone can follow: so the order is compared, not the figures.
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
