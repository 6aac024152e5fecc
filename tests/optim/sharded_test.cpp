// Optimizers and the gradient norm on shards: together they match one rank with the whole, bit for bit.
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/nn/bound_layer.h"
#include "tests/nn/shards.h"
#include "tests/optim/custom_lion.h"
#include "weft/nn/exact_sums.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/optim/block_update.h"
#include "weft/optim/clip.h"
#include "weft/optim/make_optimizer.h"

namespace weft::sharded_test {
namespace {

at::Tensor random(at::IntArrayRef sizes, uint64_t seed) { return at::randn(sizes, at::detail::createCPUGenerator(seed)); }

/// Owns its parameters: matrices that decay, a bias that does not, and a statistic that no optimizer may touch.
class OwningBlock : public Block {
 public:
  explicit OwningBlock(int64_t scale)
      : first_{random({7, 11 * scale}, 1), {}},
        second_{random({3, 5 * scale}, 2), {}},
        bias_{random({77 * scale}, 3), {}},
        statistic_{random({70}, 4), {}} {}
  Tensors forward(const Tensors& inputs, const Context&) override { return inputs; }
  std::vector<ParamSpec> parameters() override {
    return {{"statistic", &statistic_, {}, false, /*statistic=*/true},
            {"bias", &bias_, {}, /*decay=*/false},
            {"first", &first_, {}},
            {"second", &second_, {}}};
  }

 private:
  Parameter first_, second_, bias_, statistic_;
};

Model two_blocks() {
  Model model{.name = "test", .blocks = {}, .loss = cross_entropy, .hits = {}};
  model.blocks.push_back({"a", "a", std::make_shared<OwningBlock>(9)});
  model.blocks.push_back({"b", "b", std::make_shared<OwningBlock>(1)});
  return model;
}

/// The same gradients on every rank, as after a reduction; each rank takes its own part.
void give_gradients(FlatModel& flat, uint64_t seed, at::ScalarType dtype) {
  for (int b = 0; b < flat.num_blocks(); ++b) {
    FlatBlock& block = flat.flat(b);
    const at::Tensor all = random({8192}, seed + static_cast<uint64_t>(b)).to(dtype);
    ASSERT_GE(all.numel(), block.numel);
    block.owned_gradients.copy_(all.narrow(0, block.owned.begin, block.owned.end - block.owned.begin));
  }
}

/// The squares of all gradients, in digits.
ExactSum squares_of(FlatModel& flat) {
  const at::Tensor words = exact_sums(1, at::kCPU);
  add_squares(flat, words[0]);
  ExactSum sum = sums_in(words).front();
  sum.carry();
  return sum;
}

struct Case {
  std::string name;
  OptimizerOptions options;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class ShardedOptimizerTest : public ::testing::TestWithParam<Case> {};

/// Gathers as the engine does.
void gather_gradients(const std::vector<std::unique_ptr<Optimizer>>& ranks, int block, const UpdateStep& step, int bytes) {
  std::vector<at::Tensor> parts;
  for (const auto& rank : ranks) parts.push_back(rank->part_of_gradients(block, step));
  const at::Tensor whole = at::cat(parts);
  EXPECT_EQ(whole.element_size(), static_cast<size_t>(bytes));
  for (const auto& rank : ranks) rank->take_gradients(block, whole.clone());
}

/// The same for the norms of whole tensors.
void take_norms(FlatModel& whole, Optimizer& optimizer, const std::vector<std::unique_ptr<Optimizer>>& optimizers,
                const UpdateStep& step) {
  const auto count = 2 * static_cast<int64_t>(whole.params().size());
  const at::Tensor squares = exact_sums(count, at::kCPU), sums = exact_sums(count, at::kCPU);
  optimizer.add_tensor_squares(step, squares);
  optimizer.take_tensor_squares(step, sums_in(squares));
  for (const auto& each : optimizers) each->add_tensor_squares(step, sums);
  for (const auto& each : optimizers) each->take_tensor_squares(step, sums_in(sums));
}

void expect_shards_equal_the_whole(const OptimizerOptions& options, const FlatOptions& layout) {
  FlatOptions alone = layout;
  alone.num_shards = 1;
  FlatModel whole(two_blocks(), alone);
  FlatRanks ranks = flat_ranks(two_blocks, layout);
  const auto optimizer = make_optimizer(whole, options);
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (const auto& rank : ranks) optimizers.push_back(make_optimizer(*rank, options));
  const at::Tensor before = whole.flat(0).master.clone();
  const std::vector<BlockUpdate> updates =
      block_updates(two_blocks(), options, {}, static_cast<int>(c10::elementSize(layout.gradient_dtype)));
  for (uint64_t number = 0; number < 3; ++number) {
    const UpdateStep step{.lr = 0.01, .divisor = 1.5};
    give_gradients(whole, 100 + 10 * number, layout.gradient_dtype);
    for (const auto& rank : ranks) give_gradients(*rank, 100 + 10 * number, layout.gradient_dtype);
    take_norms(whole, *optimizer, optimizers, step);
    for (int b = whole.num_blocks() - 1; b >= 0; --b) {
      optimizer->update(b, step);
      if (updates[b].gathered_bytes > 0) gather_gradients(optimizers, b, step, updates[b].gathered_bytes);
      for (const auto& each : optimizers) each->update(b, step);
    }
    for (int b = 0; b < whole.num_blocks(); ++b) {
      const std::string what = "block " + std::to_string(b) + ", step " + std::to_string(number);
      const int64_t numel = whole.flat(b).numel;
      EXPECT_TRUE(at::equal(join(ranks, b, &FlatBlock::master).narrow(0, 0, numel), whole.flat(b).master)) << what;
      const at::Tensor shards = join(ranks, b, &FlatBlock::shard).narrow(0, 0, numel);
      EXPECT_TRUE(at::equal(shards, whole.flat(b).master.to(layout.weight_dtype))) << what << ": published";
      ASSERT_EQ(optimizer->state(b).size(), static_cast<size_t>(num_states(options)));
      for (size_t i = 0; i < optimizer->state(b).size(); ++i) {
        std::vector<at::Tensor> states;
        for (const auto& each : optimizers) states.push_back(each->state(b)[i]);
        const at::Tensor& state = optimizer->state(b)[i];
        if (updates[b].whole_state > 0) {
          for (const at::Tensor& each : states) EXPECT_TRUE(at::equal(each, state)) << what << ": the whole on every rank";
          continue;
        }
        EXPECT_EQ(state.numel(), optimizer->state_numels(b)[i]) << what;
        EXPECT_TRUE(at::equal(at::cat(states).narrow(0, 0, state.numel()), state)) << what << ": state " << i;
      }
    }
  }
  const GroupRange statistics = whole.statistics_range(0);
  const int64_t trained = statistics.begin;
  EXPECT_FALSE(at::equal(whole.flat(0).master.narrow(0, 0, trained), before.narrow(0, 0, trained)));
  const auto untouched = [&](const at::Tensor& x) { return x.narrow(0, trained, statistics.end - trained); };
  EXPECT_TRUE(at::equal(untouched(whole.flat(0).master), untouched(before)));
}

TEST_P(ShardedOptimizerTest, DoesWhatOneRankDoesWithTheWhole) {
  for (int shards : {2, 4, 7}) {
    SCOPED_TRACE(shards);
    expect_shards_equal_the_whole(GetParam().options, {.num_shards = shards});
    expect_shards_equal_the_whole(GetParam().options,
                                  {.num_shards = shards, .separate_shard = true, .separate_gradients = true});
    expect_shards_equal_the_whole(GetParam().options, {.num_shards = shards, .weight_dtype = at::kBFloat16});
    expect_shards_equal_the_whole(
        GetParam().options,
        {.num_shards = shards, .weight_dtype = at::kBFloat16, .gradient_dtype = at::kBFloat16, .separate_gradients = true});
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ShardedOptimizerTest,
                         ::testing::Values(Case{"adamw", AdamW{.weight_decay = 0.3}}, Case{"sgd", Sgd{.momentum = 0.0}},
                                           Case{"sgd_momentum", Sgd{.weight_decay = 0.1}},
                                           Case{"sgd_nesterov", Sgd{.weight_decay = 0.1, .nesterov = true}},
                                           Case{"custom_lion", test::custom_lion(0.3)}, Case{"muon", Muon{.adam_lr = 1e-2}},
                                           Case{"adafactor", Adafactor{.weight_decay = 0.3}}),
                         [](const auto& info) { return info.param.name; });

/// More elements than are widened at once.
TEST(Optimizer, NarrowGradientsGiveTheBitsOfTheSameWideOnes) {
  const auto make = [] {
    Model model{.name = "test", .blocks = {}, .loss = cross_entropy, .hits = {}};
    model.blocks.push_back({"a", "a", std::make_shared<OwningBlock>(4001)});
    return model;
  };
  FlatModel wide(make(), {}), narrow(make(), {.gradient_dtype = at::kBFloat16});
  ASSERT_GT(wide.flat(0).groups[0].end, int64_t{1} << 18);
  const at::Tensor gradients = random({wide.flat(0).numel}, 9).to(at::kBFloat16);
  for (const OptimizerOptions& options : {OptimizerOptions(AdamW{}), OptimizerOptions(Sgd{})}) {
    for (FlatModel* flat : {&wide, &narrow}) {
      flat->flat(0).owned_gradients.copy_(gradients);
      make_optimizer(*flat, options)->update(0, {.lr = 0.01, .divisor = 0.7});
    }
    EXPECT_TRUE(at::equal(wide.flat(0).master, narrow.flat(0).master));
  }
  wide.flat(0).owned_gradients.copy_(gradients);
  EXPECT_EQ(squares_of(wide).words(), squares_of(narrow).words());
}

TEST(Optimizer, StateThatIsTakenAwayAndPutBackChangesNothing) {
  FlatModel kept(two_blocks(), {}), moved(two_blocks(), {});
  const auto one = make_optimizer(kept, AdamW{}), other = make_optimizer(moved, AdamW{});
  for (uint64_t step = 0; step < 3; ++step) {
    std::vector<at::Tensor> away;
    for (at::Tensor& state : other->state(0)) {
      away.push_back(state.defined() ? state.clone() : state);
      state.reset();
    }
    for (size_t i = 0; i < away.size(); ++i) other->state(0)[i] = away[i];
    give_gradients(kept, step, at::kFloat);
    give_gradients(moved, step, at::kFloat);
    one->update(0, {.lr = 0.01});
    other->update(0, {.lr = 0.01});
    EXPECT_TRUE(at::equal(kept.flat(0).master, moved.flat(0).master)) << "step " << step;
  }
}

class NormTest : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(NormTest, SumsOfShardsAddUpToTheBitsOfTheWhole) {
  FlatModel whole(two_blocks(), {.gradient_dtype = GetParam()});
  give_gradients(whole, 50, GetParam());
  const ExactSum expected = squares_of(whole);
  double plain = 0.0;
  for (int b = 0; b < 2; ++b) {
    for (const GroupRange& group : whole.flat(b).groups) {
      if (group.group == ParamGroup::statistic) continue;
      const at::Tensor part = whole.flat(b).gradients.narrow(0, group.begin, group.end - group.begin);
      plain += part.to(at::kDouble).square().sum().item<double>();
    }
  }
  EXPECT_NEAR(expected.value(), plain, 1e-12 * plain);
  for (int shards : {2, 4, 7, 16}) {
    ExactSum sum;
    for (const auto& rank :
         flat_ranks(two_blocks, {.num_shards = shards, .gradient_dtype = GetParam(), .separate_gradients = true})) {
      give_gradients(*rank, 50, GetParam());
      const ExactSum own = squares_of(*rank);
      for (size_t i = 0; i < own.words().size(); ++i) sum.words()[i] += own.words()[i];
    }
    sum.carry();
    EXPECT_EQ(sum.words(), expected.words()) << shards << " shards";
    EXPECT_EQ(sum.value(), expected.value()) << shards << " shards";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NormTest, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return info.param == at::kFloat ? "float32" : "bfloat16"; });

/// Two stages; the second also holds the first one's block (tied weights).
TEST(Norm, OfTheStagesOfAPipelineCountsASharedBlockOnce) {
  FlatModel whole(two_blocks(), {});
  give_gradients(whole, 50, at::kFloat);
  const ExactSum expected = squares_of(whole);
  ExactSum sum;
  const std::vector<FlatOptions> stages = {{.held = {true, false}, .tied_copy = {false, false}},
                                           {.held = {true, true}, .tied_copy = {true, false}}};
  for (const FlatOptions& options : stages) {
    FlatModel stage(two_blocks(), options);
    for (int b = 0; b < 2; ++b) {
      if (stage.holds(b)) stage.flat(b).gradients.copy_(whole.flat(b).gradients);
    }
    const ExactSum own = squares_of(stage);
    for (size_t i = 0; i < own.words().size(); ++i) sum.words()[i] += own.words()[i];
  }
  sum.carry();
  EXPECT_EQ(sum.words(), expected.words());
}

TEST(Clip, ANormOfGradientsThatAreNotFiniteIsNotANumber) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    FlatModel flat(two_blocks(), {});
    flat.flat(1).gradients[5] = bad;
    EXPECT_TRUE(std::isnan(squares_of(flat).value())) << bad;
    flat.flat(1).gradients.zero_();
    flat.flat(1).gradients[flat.statistics_range(1).begin] = bad;  // a statistic is not clipped
    EXPECT_EQ(squares_of(flat).value(), 0.0);
  }
}

}  // namespace
}  // namespace weft::sharded_test
