// BatchNorm over the samples of several ranks against at::batch_norm() over all of them on one device.
#include "weft/nn/images/batch_norm.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/nn/recorded_calls.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"
#include "weft/models/vision.h"
#include "weft/nn/cost/measure_cost.h"

namespace weft::batch_norm_test {
namespace {

constexpr int64_t kChannels = 3;

/// A layer's tensors, and its results for x; gradients are of sum(y dy).
struct Normed {
  BatchNormState state;
  at::Tensor y = {}, dx = {};
};

Normed fresh(at::ScalarType type) {
  auto generator = at::detail::createCPUGenerator(7);
  return {.state = {.weight = at::randn({kChannels}, generator, at::kFloat).to(type).requires_grad_(),
                    .bias = at::randn({kChannels}, generator, at::kFloat).to(type).requires_grad_(),
                    .running_mean = at::zeros({kChannels}, type),
                    .running_var = at::ones({kChannels}, type),
                    .momentum = 0.3}};
}

template <class Forward>
void run(Normed& normed, const at::Tensor& x, const at::Tensor& dy, const Forward& forward) {
  const at::Tensor leaf = x.detach().clone().requires_grad_();
  const at::Tensor y = forward(leaf, normed.state);
  torch::autograd::backward({y}, {dy});
  normed.y = y.detach();
  normed.dx = leaf.grad();
}

struct Case {
  std::vector<int64_t> samples;  ///< by rank
  at::ScalarType type = at::kFloat;
  double tolerance = 1e-6;  ///< for values of about one
  bool channels_last = false;
};

TEST(BatchNorm, OverRanksIsThatOfOneDevice) {
  const Case cases[] = {{{3, 2}},
                        {{0, 4}},
                        {{4, 0, 1, 2}},
                        {{1, 1, 1, 1}},
                        {{5}},
                        {{3, 2}, at::kDouble, 1e-12},
                        {{3, 0, 2}, at::kBFloat16, 0.04},
                        {{3, 2}, at::kFloat, 1e-6, true},
                        {{4, 0, 1, 2}, at::kFloat, 1e-6, true},
                        {{3, 0, 2}, at::kBFloat16, 0.04, true}};
  for (const Case& c : cases) {
    int64_t all = 0;
    for (const int64_t count : c.samples) all += count;
    auto numbers = at::detail::createCPUGenerator(8);
    // Far from zero: the squares of the mean must not cancel in the variance.
    const at::Tensor x = at::randn({all, kChannels, 4, 5}, numbers, at::kFloat).add_(10.0).to(c.type),
                     dy = at::randn({all, kChannels, 4, 5}, numbers, at::kFloat).to(c.type);
    Normed whole = fresh(at::kDouble);
    run(whole, x.to(at::kDouble), dy.to(at::kDouble), [](const at::Tensor& in, const BatchNormState& s) {
      return at::batch_norm(in, s.weight, s.bias, s.running_mean, s.running_var, true, s.momentum, s.eps, false);
    });
    const int ranks = static_cast<int>(c.samples.size());
    std::vector<Normed> own(static_cast<size_t>(ranks));
    test::run_ranks(ranks, [&](const World& world) {
      const Mesh mesh(world, {{"dp", ranks}});
      const Context context{.training = true, .batch = mesh.group(mesh.axis("dp"))};
      int64_t first = 0;
      for (int rank = 0; rank < world.rank(); ++rank) first += c.samples[static_cast<size_t>(rank)];
      const int64_t count = c.samples[static_cast<size_t>(world.rank())];
      Normed& mine = own[static_cast<size_t>(world.rank())] = fresh(c.type == at::kDouble ? at::kDouble : at::kFloat);
      const auto order = c.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
      run(mine, x.narrow(0, first, count).contiguous(order), dy.narrow(0, first, count),
          [&](const at::Tensor& in, const BatchNormState& s) { return batch_norm(in, s, context); });
    });
    const auto join = [&](at::Tensor Normed::*part) {
      std::vector<at::Tensor> parts;
      for (const Normed& rank : own) parts.push_back(rank.*part);
      return at::cat(parts);
    };
    const auto expect_like = [&](const at::Tensor& actual, const at::Tensor& expected, const char* what, double scale = 1.0) {
      EXPECT_TRUE(at::allclose(actual.to(at::kDouble), expected.detach().to(at::kDouble), c.tolerance, c.tolerance * scale))
          << what << " on " << ranks << " ranks, " << c.type;
    };
    expect_like(join(&Normed::y), whole.y, "y");
    expect_like(join(&Normed::dx), whole.dx, "dx");
    at::Tensor of_weight = at::zeros({kChannels}, at::kDouble), of_bias = of_weight.clone();
    for (const Normed& rank : own) {
      of_weight += rank.state.weight.grad();
      of_bias += rank.state.bias.grad();
      expect_like(rank.state.running_mean, whole.state.running_mean, "running mean", 10.0);
      expect_like(rank.state.running_var, whole.state.running_var, "running variance", 10.0);
    }
    expect_like(of_weight, whole.state.weight.grad(), "gradient of weight", 100.0);
    expect_like(of_bias, whole.state.bias.grad(), "gradient of bias", 100.0);
  }
}

TEST(BatchNorm, OfOneValueAChannelIsRefused) {
  test::run_ranks(2, [&](const World& world) {
    const Mesh mesh(world, {{"dp", 2}});
    const Context context{.training = true, .batch = mesh.group(mesh.axis("dp"))};
    const Normed normed = fresh(at::kFloat);
    const at::Tensor x = at::zeros({world.rank(), kChannels, 1, 1});
    EXPECT_EQ(test::refusal([&] { batch_norm(x, normed.state, context); }),
              "batch norm: 1 values per channel over all ranks normalised together; it needs 2 or more: larger "
              "micro-batches");
  });
}

TEST(BatchNorm, SendsWhatItsHeaderSays) {
  constexpr int64_t kWidth = 8;
  const at::Tensor images = at::empty({6, 1, 28, 28}, at::TensorOptions(at::kFloat).device(at::kMeta));
  for (const int ranks : {1, 2, 4}) {
    Model model = cnn({.width = kWidth});
    const BlockTraffic traffic = measure_cost(model, {images}, {.batch_ranks = ranks})[0].traffic;
    const auto all_reduce = [&](int64_t numbers) {
      const std::vector<RecordedCall> call = {{"batch", 2 * (ranks - 1), 2 * (numbers * 8 * (ranks - 1) / ranks)}};
      return ranks == 1 ? std::vector<RecordedCall>{} : call;
    };
    EXPECT_EQ(sent(traffic.forward), all_reduce(2 * kWidth + 1)) << ranks;
    EXPECT_EQ(sent(traffic.backward), all_reduce(2 * kWidth)) << ranks;
  }
}

}  // namespace
}  // namespace weft::batch_norm_test
