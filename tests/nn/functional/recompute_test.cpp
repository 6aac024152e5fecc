// A part recomputed in backward: the same bits, and less memory kept.
#include "weft/nn/functional/recompute.h"

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <c10/core/StorageImpl.h>
#include <gtest/gtest.h>

#include "tests/nn/bound_layer.h"
#include "tests/nn/shards.h"
#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/random.h"

namespace weft {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// x + down(dropout(gelu(up(x)))), with an optionally recomputed middle; records its intermediate values.
struct Feed {
  explicit Feed(bool again, at::ScalarType dtype = at::kFloat) : again(again) {
    std::vector<ParamSpec> specs;
    up.describe(specs, "up");
    down.describe(specs, "down");
    flat = std::make_unique<FlatModel>(
        bind_block(std::make_shared<FunctionBlock>(
                       [this](const Tensors& in, const Context& context) -> Tensors { return {run(in[0], context)}; }, specs),
                   {.weight_dtype = dtype}));
    flat->clear_gradients(0);
  }

  at::Tensor run(const at::Tensor& x, const Context& context) {
    const auto middle = [this, context](const at::Tensor& in) {
      ++runs;
      const at::Tensor wide = up(in);
      const at::Tensor dropped =
          dropout(at::gelu(wide, "tanh"), 0.3, random_key(context.seed, "feed", context.step), context.first_sample * 4 * 64);
      for (const at::Tensor& made : {wide, dropped}) kept.push_back(made.storage().getWeakStorageImpl());
      return down(dropped);
    };
    return x.add(again ? recompute(middle, x) : middle(x));
  }

  int num_kept() const {
    int count = 0;
    for (const WeakStorage& storage : kept) count += storage.expired() ? 0 : 1;
    return count;
  }

  bool again;
  Linear up{16, 64}, down{64, 16};
  std::unique_ptr<FlatModel> flat;
  std::vector<WeakStorage> kept;
  int runs = 0;
};

class RecomputeTest : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(RecomputeTest, ValuesAndGradientsHaveTheSameBits) {
  Feed plain(false, GetParam()), again(true, GetParam());
  for (int64_t micro = 0; micro < 2; ++micro) {  // the second one adds
    const Context context{.seed = 5, .step = 2, .first_sample = micro};
    const at::Tensor x = at::randn({4, 16}).to(GetParam()), dy = at::randn({4, 16}).to(GetParam());
    const at::Tensor x1 = x.clone().requires_grad_(true), x2 = x.clone().requires_grad_(true);
    const at::Tensor y1 = plain.flat->block(0).forward({x1}, context)[0], y2 = again.flat->block(0).forward({x2}, context)[0];
    EXPECT_TRUE(at::equal(y1, y2)) << "dropout included";
    y1.backward(dy);
    y2.backward(dy);
    plain.flat->settle_gradients(0, {});
    again.flat->settle_gradients(0, {});
    EXPECT_TRUE(at::equal(x1.grad(), x2.grad())) << "micro-batch " << micro;
    EXPECT_TRUE(at::equal(plain.flat->flat(0).gradients, again.flat->flat(0).gradients)) << "micro-batch " << micro;
    EXPECT_TRUE(again.flat->flat(0).gradients.ne(0.0).any().item<bool>());
  }
  EXPECT_EQ(plain.runs, 2);
  EXPECT_EQ(again.runs, 4);
}

INSTANTIATE_TEST_SUITE_P(Types, RecomputeTest, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return info.param == at::kFloat ? "float32" : "bfloat16"; });

TEST(Recompute, KeepsNothingThatThePartMade) {
  Feed plain(false), again(true);
  const at::Tensor x = at::randn({4, 16}).requires_grad_(true);
  const at::Tensor y1 = plain.run(x, {}), y2 = again.run(x, {});
  EXPECT_EQ(plain.num_kept(), 2);
  EXPECT_EQ(again.num_kept(), 0);
  y2.sum().backward();
  EXPECT_EQ(again.num_kept(), 0) << "recomputed values are freed too";
}

TEST(Recompute, RunsOnceWhereThereIsNoBackward) {
  Feed feed(true);
  {
    const c10::NoGradGuard no_grad;
    feed.run(at::randn({4, 16}), {});
  }
  EXPECT_EQ(feed.runs, 1);
  // The input needs no gradient, the parameters do.
  const at::Tensor x = at::randn({4, 16});
  feed.run(x, {}).sum().backward();
  EXPECT_EQ(feed.runs, 2);
  EXPECT_TRUE(feed.down.weight.value.grad().ne(0.0).any().item<bool>());
}

/// The generators' state is kept only for a part that draws from them: repeating another leaves them as they are.
TEST(Recompute, RepeatsTheDrawsOfGenerators) {
  for (const PartDraws draws : {PartDraws::generators, PartDraws::keys}) {
    std::vector<at::Tensor> drawn;
    const at::Tensor x = at::ones({8}).requires_grad_(true);
    const auto part = [&drawn](const at::Tensor& in) {
      drawn.push_back(at::rand({8}));
      return in.mul(drawn.back());
    };
    at::manual_seed(3);
    recompute(part, x, draws).sum().backward();
    const at::Tensor next = at::rand({8});
    at::manual_seed(3);
    const at::Tensor first = at::rand({8}), second = at::rand({8}), third = at::rand({8});
    ASSERT_EQ(drawn.size(), 2u);
    const bool repeats = draws == PartDraws::generators;
    EXPECT_TRUE(at::equal(drawn[0], first));
    EXPECT_TRUE(at::equal(drawn[1], repeats ? first : second));
    EXPECT_TRUE(at::equal(next, repeats ? second : third));
  }
}

TEST(Recompute, UsesOfOneInputAddUp) {
  const at::Tensor x = at::randn({8}).requires_grad_(true), x2 = x.detach().clone().requires_grad_(true);
  const auto cube = [](const at::Tensor& in) { return in.mul(in).mul(in); };
  const auto twice = [&](const at::Tensor& in) { return recompute(cube, recompute(cube, in)); };
  twice(x).add(recompute(cube, x)).sum().backward();
  cube(cube(x2)).add(cube(x2)).sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), x2.grad()));  // summed in autograd's order
}

class RecomputePartsTest : public ::testing::TestWithParam<Model (*)()> {};

TEST_P(RecomputePartsTest, OfTheAttentionOfALayerGivesTheSameBits) {
  const auto make = GetParam();
  FlatModel plain(make(), {}), again(make(), {});
  initialise(plain, 1);
  initialise(again, 1);
  ASSERT_TRUE(again.block(1).can_recompute_parts());
  const at::Tensor x = at::randn({2, 8, 16}), dy = at::randn({2, 8, 16});
  const auto run = [&](FlatModel& flat, bool recompute_parts) {
    const at::Tensor in = x.clone().requires_grad_(true);
    flat.clear_gradients(1);
    const at::Tensor y = flat.block(1).forward({in}, {.seed = 1, .step = 4, .layout = {.recompute_parts = recompute_parts}})[0];
    y.backward(dy);
    flat.settle_gradients(1, {});
    return Tensors{y.detach(), in.grad(), flat.flat(1).gradients};
  };
  const Tensors expected = run(plain, false), got = run(again, true);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(got[i], expected[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Models, RecomputePartsTest,
    ::testing::Values(
        [] { return gpt({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 11, .dropout = 0.2}); },
        [] { return llama({.layers = 1, .heads = 4, .kv_heads = 2, .width = 16, .context = 8}); }));

}  // namespace
}  // namespace weft
