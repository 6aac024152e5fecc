// Sums over rows: as exact as LibTorch's, rounded once in bfloat16, with the same bits on any processor.
#include "weft/nn/functional/column_sums.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <string>
#include <vector>

namespace weft::column_sums_test {
namespace {

// Row counts with and without remainders of fours, chunks and the maximum of chunks; columns with and without whole vectors.
const std::vector<std::vector<int64_t>> kSizes = {{1, 1}, {3, 40}, {64, 17}, {65, 1152}, {2048, 33}, {4100, 7}, {9000, 16}};

at::Tensor random(at::IntArrayRef sizes) { return at::randn(sizes, at::detail::createCPUGenerator(1), at::kFloat).add_(0.1); }

/// Over all columns: a single one may be rounded well by chance.
double mean_square_error(const at::Tensor& x, const at::Tensor& exact) {
  return x.to(at::kDouble).sub(exact).square().mean().item().toDouble();
}

double largest_error(const at::Tensor& x, const at::Tensor& exact) {
  return x.to(at::kDouble).sub(exact).abs().max().item().toDouble();
}

TEST(ColumnSums, AreAsExactAsLibTorchs) {
  for (const auto& sizes : kSizes) {
    const at::Tensor x = random(sizes), exact = x.to(at::kDouble).sum(0);
    EXPECT_LE(mean_square_error(column_sums(x, at::kFloat), exact), 4 * mean_square_error(x.sum(0), exact))
        << at::IntArrayRef(sizes);
  }
}

TEST(ColumnSums, RoundBfloat16OnlyAtTheEnd) {
  for (const auto& sizes : kSizes) {
    const at::Tensor x = random(sizes).to(at::kBFloat16), wide = column_sums(x.to(at::kFloat), at::kFloat);
    EXPECT_TRUE(column_sums(x, at::kFloat).equal(wide));
    EXPECT_TRUE(column_sums(x, at::kBFloat16).equal(wide.to(at::kBFloat16)));
  }
}

TEST(ColumnSums, HaveTheSameBitsWhateverComputes) {
  const int threads = at::get_num_threads();
  for (const auto& sizes : kSizes) {
    const at::Tensor x = random(sizes), expected = column_sums(x, at::kFloat);
    for (const int number : {1, 2, 3}) {
      at::set_num_threads(number);
      EXPECT_TRUE(column_sums(x, at::kFloat).equal(expected)) << number << " threads, " << at::IntArrayRef(sizes);
    }
    at::set_num_threads(threads);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      EXPECT_TRUE(column_sums(x, at::kFloat).equal(expected)) << hwy::TargetName(target) << ", " << at::IntArrayRef(sizes);
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(ColumnSums, TakeAnyOrderTypeAndNumberOfRows) {
  const at::Tensor x = random({30, 20}), exact = x.to(at::kDouble).sum(0);
  EXPECT_LE(largest_error(column_sums(x.t().contiguous().t(), at::kFloat), exact), 1e-5);
  EXPECT_LE(largest_error(column_sums(x.to(at::kDouble), at::kDouble), exact), 1e-14);
  EXPECT_TRUE(column_sums(x.narrow(0, 0, 0), at::kFloat).equal(at::zeros({20})));
  EXPECT_EQ(column_sums(at::empty({30, 20}, at::kMeta), at::kBFloat16).sizes(), exact.sizes());
}

}  // namespace
}  // namespace weft::column_sums_test
