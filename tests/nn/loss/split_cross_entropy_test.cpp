// The loss of logits divided over ranks against that of whole ones.
#include "weft/nn/loss/split_cross_entropy.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/run_ranks.h"
#include "weft/base/math.h"
#include "weft/comm/mesh.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft::split_cross_entropy_test {
namespace {

constexpr int64_t kTargets = 24;

/// A rank's part of whole logits; padding holds values that must not count.
at::Tensor part_of(const at::Tensor& logits, int64_t classes, int ranks, int rank) {
  const int64_t size = ceil_divide(classes, ranks), first = std::min(classes, rank * size),
                end = std::min(classes, first + size);
  const at::Tensor padding = at::full({logits.size(0), size - (end - first)}, 1e4, logits.options());
  return at::cat({logits.narrow(1, first, end - first), padding}, 1);
}

TEST(VocabularyLoss, EqualsThatOfWholeLogits) {
  for (const int64_t classes : {3, 13, 16}) {
    for (const double scale : {1.0, 100.0}) {
      auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(classes));
      const at::Tensor logits = at::randn({kTargets, classes}, generator, at::kFloat).mul(scale);
      at::Tensor target = at::randint(classes, {kTargets}, generator, at::kLong);
      target.narrow(0, 2, 3).fill_(-100);
      const at::Tensor whole = logits.clone().requires_grad_();
      const LossValue expected = cross_entropy({whole}, target);
      torch::autograd::backward({expected.sum}, {});
      for (const int ranks : {1, 2, 4}) {
        test::run_ranks(ranks, [&](const World& world) {
          const Mesh mesh(world, {{"tp", ranks}});
          const Context context{.tp = mesh.group(mesh.axis("tp"))};
          const at::Tensor own = part_of(logits, classes, ranks, world.rank()).requires_grad_();
          const LossValue loss = vocabulary_cross_entropy(classes)({own}, target, context);
          torch::autograd::backward({loss.sum}, {});
          EXPECT_EQ(loss.count, expected.count);
          EXPECT_NEAR(loss.sum.item<double>(), expected.sum.item<double>(), 1e-5 * std::abs(expected.sum.item<double>()));
          const at::Tensor gradient = part_of(whole.grad(), classes, ranks, world.rank());
          const at::Tensor real = gradient.ne(1e4);
          EXPECT_TRUE(at::allclose(own.grad().mul(real), gradient.mul(real), 1e-4, 1e-6)) << classes << " on " << ranks;
          EXPECT_EQ(own.grad().mul(real.logical_not()).abs().max().item<double>(), 0.0) << "padding";
          EXPECT_EQ(vocabulary_hits(classes)({own}, target, context), count_hits({logits}, target));
        });
      }
    }
  }
}

}  // namespace
}  // namespace weft::split_cross_entropy_test
