// Published throughput of GPipe vs task_times(), as modelled in bench/published/gpipe.h, which says why only order counts.
#include "bench/published/gpipe.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::published {
namespace {

std::vector<GpipeRow> rows_of(const std::string& model) {
  std::vector<GpipeRow> rows = gpipe_rows(WEFT_SHARED "/published/gpipe_2019.csv");
  std::erase_if(rows, [&model](const GpipeRow& row) { return row.model != model; });
  return rows;
}

TEST(Gpipe, throughput_of_the_transformer_has_the_published_order) {
  std::vector<double> published, predicted;
  for (const GpipeRow& row : rows_of("Transformer-48")) {
    published.push_back(row.published);
    predicted.push_back(row.predicted);
  }
  ASSERT_EQ(published.size(), 9U) << "2, 4 and 8 ranks, 1, 4 and 32 micro-batches";
  EXPECT_GE(rank_correlation(published, predicted), 0.95);
}

// Runs that differ only in ranks, or only in micro-batches, are all in the published order.
TEST(Gpipe, more_ranks_and_micro_batches_gain_as_published) {
  const std::vector<GpipeRow> rows = rows_of("Transformer-48");
  int pairs = 0;
  for (const GpipeRow& a : rows) {
    for (const GpipeRow& b : rows) {
      if ((a.ranks == b.ranks) == (a.micro_batches == b.micro_batches)) continue;
      EXPECT_EQ(a.published < b.published, a.predicted < b.predicted)
          << a.ranks << " ranks, " << a.micro_batches << " and " << b.ranks << ", " << b.micro_batches;
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 36);
}

TEST(Gpipe, many_micro_batches_scale_as_published) {
  const std::vector<GpipeRow> rows = rows_of("Transformer-24");
  ASSERT_EQ(rows.size(), 3U);
  for (const GpipeRow& row : rows) EXPECT_NEAR(row.predicted, row.published, 0.1 * row.published) << row.ranks << " ranks";
}

TEST(RankCorrelation, is_one_for_the_same_order_and_shares_equal_ranks) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {10, 20, 40}), 1.0);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {3, 2, 1}), -1.0);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {1, 1, 2, 2}), 4.0 / std::sqrt(20.0));
}

}  // namespace
}  // namespace weft::published
