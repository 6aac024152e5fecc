#include "weft/engine/evaluation_sum.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/comm/mesh.h"

namespace weft {
namespace {

constexpr int64_t kFar = int64_t{1} << 40;  // in a set too large for a table of all micro-batches

TEST(EvaluationSum, HasTheSameBitsHoweverTheSetIsDivided) {
  const std::vector<double> losses = {0.1, 1e9, -3.7, 2.5e-7, 0.3, -1e9, 12.0, 0.7};
  EvaluationSum alone;
  for (size_t i = 0; i < losses.size(); ++i) alone.add(kFar + static_cast<int64_t>(i), {losses[i], 2, 1, 2});
  const EvaluationResult expected = alone.total(Group(), at::kCPU, 0);
  EXPECT_NEAR(expected.loss, 9.40000025 / 16, 1e9 * 0x1p-52);
  EXPECT_EQ(expected.count, 16);
  EXPECT_EQ(expected.hits, 8);
  test::run_ranks(4, [&](World world) {
    EvaluationSum mine;
    const auto own = static_cast<size_t>(world.rank());
    for (const size_t i : {own + 4, own}) mine.add(kFar + static_cast<int64_t>(i), {losses[i], 2, 1, 2});
    const Mesh mesh(world, {{"dp", 4}});
    const EvaluationResult result = mine.total(mesh.group(mesh.axis("dp"), {}), at::kCPU, 0);
    EXPECT_EQ(result.loss, expected.loss);
    EXPECT_EQ(result.count, 16);
    EXPECT_EQ(result.hits, 8);
    EXPECT_EQ(result.top5, 16);
  });
}

TEST(EvaluationSum, AWeightDividesWhereTheLossHasOne) {
  EvaluationSum sum, bad, none;
  sum.add(0, {3.0, 2, 1}, 0.25);
  sum.add(1, {1.0, 2, 2}, 1.75);
  const EvaluationResult result = sum.total(Group(), at::kCPU, 0);
  EXPECT_EQ(result.loss, 2.0);
  EXPECT_EQ(result.count, 4) << "of which accuracies are shares";
  EXPECT_EQ(result.hits, 3);
  bad.add(0, {3.0, 2}, -1.0);
  EXPECT_THROW(bad.total(Group(), at::kCPU, 0), NumericError);
  none.add(0, {0.0, 2}, 0.0);
  EXPECT_THROW(none.total(Group(), at::kCPU, 0), InputError);
}

TEST(EvaluationSum, NamesTheFirstLossThatCannotBeAddedUp) {
  const double inf = std::numeric_limits<double>::infinity();
  const struct {
    double loss;
    const char* says;
  } table[] = {{std::numeric_limits<double>::quiet_NaN(), "nan"},
               {inf, "inf"},
               {-inf, "-inf"},
               {0x1p287, "too large"},
               {-0x1p300, "too large"}};
  for (const auto& row : table) {
    EvaluationSum sum;
    sum.add(kFar + 1, {inf, 1});
    sum.add(kFar, {row.loss, 1});
    sum.add(kFar - 1, {0x1p286, 1});
    try {
      sum.total(Group(), at::kCPU, 3);
      ADD_FAILURE() << "nothing was thrown for " << row.loss;
    } catch (const NumericError& error) {
      const std::string says =
          "evaluation after step 3: the loss of micro-batch 1099511627776 is " + std::string(row.says) + ";";
      EXPECT_EQ(std::string(error.what()).rfind(says, 0), 0u) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft
