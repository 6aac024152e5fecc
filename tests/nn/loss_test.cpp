// Losses and counts of whole logits.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "weft/nn/model.h"

namespace weft::loss_test {
namespace {

TEST(CountTop5, CountsAsTopkDoes) {
  for (const int64_t classes : {6, 10, 1000}) {
    const at::Tensor logits = at::randn({64, classes});
    at::Tensor target = at::randint(classes, {64}, at::kLong);
    target.narrow(0, 0, 8).fill_(-100);
    const at::Tensor best = std::get<1>(logits.topk(5));
    EXPECT_EQ(count_top5({logits}, target), best.eq(target.unsqueeze(1)).any(1).sum().item<int64_t>()) << classes;
  }
}

TEST(CountTop5, OfEqualLogitsTheLowerClassesComeFirst) {
  const at::Tensor logits = at::zeros({8, 8});
  EXPECT_EQ(count_top5({logits}, at::arange(8, at::kLong)), 5);
  EXPECT_EQ(count_hits({logits}, at::arange(8, at::kLong)), 1) << "as argmax has it";
  EXPECT_EQ(count_top5({logits}, at::full({8}, -100, at::kLong)), 0);
}

TEST(CountTop5, IsToldOfMoreThanFiveClassesAlone) {
  EXPECT_FALSE(top5_of(5));
  EXPECT_TRUE(top5_of(6));
}

}  // namespace
}  // namespace weft::loss_test
