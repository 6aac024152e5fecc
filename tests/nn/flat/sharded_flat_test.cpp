// Flat models divided over ranks: the parts match the whole bit for bit.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <map>

#include "tests/nn/bound_layer.h"
#include "tests/nn/function_allocator.h"
#include "tests/nn/shards.h"
#include "weft/base/math.h"
#include "weft/models/gpt.h"
#include "weft/models/vision.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/modules/module_block.h"

namespace weft {
namespace {

Model tiny_cnn() { return cnn({.width = 4}); }

/// The ranks' first values are the whole's; additional padding is zero.
void expect_whole(const at::Tensor& joined, const at::Tensor& whole, const std::string& what) {
  ASSERT_GE(joined.numel(), whole.numel()) << what;
  EXPECT_TRUE(at::equal(joined.narrow(0, 0, whole.numel()), whole)) << what;
  EXPECT_TRUE(joined.narrow(0, whole.numel(), joined.numel() - whole.numel()).eq(0.0).all().item<bool>()) << what;
}

struct DrawCase {
  std::string name;
  Model (*make)();
  FlatOptions options;
};

std::ostream& operator<<(std::ostream& out, const DrawCase& c) { return out << c.name; }

std::vector<DrawCase> draw_cases() {
  std::vector<DrawCase> cases;
  for (int shards : {1, 2, 4, 7}) {
    for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const std::string name = "shards" + std::to_string(shards) + (dtype == at::kFloat ? "" : "_bf16");
      const FlatOptions options{.num_shards = shards, .weight_dtype = dtype};
      FlatOptions apart = options, late = options;
      apart.separate_shard = late.separate_shard = true;
      late.late_shard = true;
      cases.push_back({name + "_gpt", tiny_gpt, options});
      cases.push_back({name + "_cnn_apart", tiny_cnn, apart});
      cases.push_back({name + "_gpt_late", tiny_gpt, late});
    }
  }
  return cases;
}

class DrawTest : public ::testing::TestWithParam<DrawCase> {};

TEST_P(DrawTest, ShardsHaveTheBitsOfTheWhole) {
  const DrawCase& c = GetParam();
  FlatModel whole(c.make(), {});
  initialise(whole, 3);
  FlatRanks ranks = flat_ranks(c.make, c.options);
  initialise(ranks, 3);
  for (int b = 0; b < whole.num_blocks(); ++b) {
    const std::string what = "block " + std::to_string(b);
    expect_whole(join(ranks, b, &FlatBlock::master), whole.flat(b).weights, "master of " + what);
    expect_whole(join(ranks, b, &FlatBlock::shard), whole.flat(b).weights.to(c.options.weight_dtype), "shard of " + what);
    for (const auto& rank : ranks) {
      FlatBlock& flat = rank->flat(b);
      EXPECT_EQ(flat.owned.begin % kAlignElements, 0) << what;
      EXPECT_EQ((flat.owned.end - flat.owned.begin) * c.options.num_shards, flat.numel) << what;
      EXPECT_EQ(flat.master.scalar_type(), at::kFloat) << what;
      EXPECT_EQ(flat.shard.scalar_type(), c.options.weight_dtype) << what;
      EXPECT_EQ(flat.shard.is_alias_of(flat.weights), !c.options.separate_shard) << what;
      EXPECT_EQ(flat.shard.is_alias_of(flat.master), c.options.weight_dtype == at::kFloat) << what;
    }
  }
  EXPECT_EQ(ranks.front()->num_parameters(), whole.num_parameters());
}

INSTANTIATE_TEST_SUITE_P(Table, DrawTest, ::testing::ValuesIn(draw_cases()), [](const auto& info) { return info.param.name; });

TEST(ShardedFlat, LateShardsAreMadeOneAtATime) {
  FlatModel flat(tiny_gpt(), {.num_shards = 2, .shard = 1, .separate_shard = true, .late_shard = true});
  for (int b = 0; b < flat.num_blocks(); ++b) {
    for (int other = b; other < flat.num_blocks(); ++other) EXPECT_FALSE(flat.flat(other).master.defined()) << b << other;
    flat.initialise(b, 3);
    EXPECT_TRUE(flat.flat(b).master.defined());
    EXPECT_EQ(flat.flat(b).master.storage().nbytes(), flat.flat(b).master.nbytes()) << "separate memory";
    flat.flat(b).master.reset();  // as when offloaded
    flat.flat(b).shard.reset();
  }
}

TEST(ShardedFlat, BlocksShareWeightBuffersOneAtATime) {
  FlatModel whole(tiny_gpt(), {});
  initialise(whole, 3);
  FlatRanks ranks = flat_ranks(
      tiny_gpt, {.num_shards = 2, .separate_shard = true, .weight_buffer = {0, 1, 2, 1}, .gradient_buffer = {0, 1, 0, 1}});
  initialise(ranks, 3);
  FlatModel& flat = *ranks.front();
  EXPECT_TRUE(flat.flat(1).weights.is_alias_of(flat.flat(3).weights));
  EXPECT_FALSE(flat.flat(1).weights.is_alias_of(flat.flat(2).weights));
  EXPECT_TRUE(flat.flat(0).gradients.is_alias_of(flat.flat(2).gradients));
  EXPECT_FALSE(flat.flat(0).gradients.is_alias_of(flat.flat(1).gradients));
  const int64_t larger = std::max(flat.flat(1).numel, flat.flat(3).numel);
  EXPECT_EQ(flat.flat(3).weights.storage().nbytes(), larger * sizeof(float)) << "as large as the larger block";
  for (int b : {1, 3, 0, 1, 2}) {
    flat.flat(b).weights.copy_(join(ranks, b, &FlatBlock::shard));  // a gather
    for (int index : flat.flat(b).params) {
      const at::Tensor& value = flat.params()[index].parameter->value;
      EXPECT_TRUE(at::equal(value, whole.params()[index].parameter->value)) << flat.params()[index].name;
      EXPECT_EQ(value.data_ptr(), flat.flat(b).weights.data_ptr<float>() + flat.params()[index].offset);
    }
  }
}

TEST(ShardedFlat, AsksForEachBufferOnceAndInItsType) {
  std::map<std::string, std::pair<int64_t, at::ScalarType>> made;
  const auto allocate = [&made](FlatBuffer buffer, int64_t numel, at::ScalarType dtype, const std::string& what) {
    if (buffer == FlatBuffer::master) return at::zeros({numel}, dtype);  // for each part of a block
    EXPECT_TRUE(made.emplace(what, std::pair(numel, dtype)).second) << what;
    return at::zeros({numel}, dtype);
  };
  const FlatModel flat(tiny_cnn(), {.num_shards = 2,
                                    .weight_dtype = at::kBFloat16,
                                    .gradient_dtype = at::kFloat,
                                    .separate_shard = true,
                                    .allocator = std::make_shared<test::FunctionAllocator>(allocate)});
  int64_t total = 0;
  for (int b = 0; b < flat.num_blocks(); ++b) total += flat.gradients(b, b + 1).numel();
  EXPECT_EQ(made.size(), static_cast<size_t>(flat.num_blocks()) + 2);
  EXPECT_EQ(made.at("gradients"), std::pair(total, at::kFloat));
  EXPECT_EQ(made.at("shards of the weights"), std::pair(total / 2, at::kBFloat16));
  EXPECT_EQ(made.at("weights of " + flat.model().blocks[0].name).second, at::kBFloat16);
}

TEST(ShardedFlat, OwnedGradientsAreApartOnlyWhereAsked) {
  FlatModel within(tiny_gpt(), {.num_shards = 2, .shard = 1});
  FlatModel apart(tiny_gpt(), {.num_shards = 2, .shard = 1, .gradient_dtype = at::kBFloat16, .separate_gradients = true});
  for (int b = 0; b < within.num_blocks(); ++b) {
    FlatBlock& flat = within.flat(b);
    EXPECT_EQ(flat.owned_gradients.data_ptr(), flat.gradients.data_ptr<float>() + flat.owned.begin);
    EXPECT_FALSE(apart.flat(b).owned_gradients.is_alias_of(apart.flat(b).gradients));
    EXPECT_EQ(apart.flat(b).owned_gradients.scalar_type(), at::kBFloat16);
    EXPECT_EQ(apart.flat(b).owned_gradients.numel(), flat.numel / 2);
  }
}

TEST(ShardedFlat, ABlockSmallerThanTheRanksIsOneRanksAlone) {
  auto layer = std::make_shared<Linear>(1, 1);
  const auto make = [&] {
    auto own = std::make_shared<Linear>(*layer);  // on the meta device: nothing is shared
    std::vector<ParamSpec> specs;
    own->describe(specs, "linear");
    const auto run = [own](const Tensors& in, const Context&) -> Tensors { return {(*own)(in[0])}; };
    return Model{.name = "test", .blocks = {{"a", "a", std::make_shared<FunctionBlock>(run, specs)}}};
  };
  FlatModel whole(make(), {});
  initialise(whole, 3);
  FlatRanks ranks = flat_ranks(make, {.num_shards = 8});
  initialise(ranks, 3);
  EXPECT_EQ(ranks.front()->flat(0).numel, 8 * kAlignElements);
  expect_whole(join(ranks, 0, &FlatBlock::master), whole.flat(0).weights, "master");
  int64_t owned = 0;
  for (const auto& rank : ranks) {
    for (const GroupRange& group : rank->flat(0).groups) {
      const GroupRange own = rank->flat(0).own(group);
      EXPECT_GE(own.end, own.begin);
      owned += own.end - own.begin;
    }
  }
  EXPECT_EQ(owned, 2) << "the weight and the bias once each";
}

TEST(ShardedFlat, StatisticsMoveOnTheRankThatOwnsThem) {
  FlatModel whole(tiny_cnn(), {});
  initialise(whole, 3);
  FlatRanks ranks = flat_ranks(tiny_cnn, {.num_shards = 4});
  initialise(ranks, 3);
  const at::Tensor change = at::randn({whole.flat(0).numel});
  const auto move = [&change](FlatModel& flat) {
    const GroupRange range = flat.statistics_range(0);
    flat.flat(0).gradients.fill_(99.0);
    flat.clear_gradients(0);
    flat.settle_gradients(0, change.narrow(0, range.begin, range.end - range.begin));
    flat.settle_gradients(0, change.narrow(0, range.begin, range.end - range.begin));  // a second micro-batch adds
    flat.apply_statistics(0, /*micro_batches=*/3);
  };
  const at::Tensor before = whole.flat(0).weights.clone();
  move(whole);
  for (const auto& rank : ranks) move(*rank);
  expect_whole(join(ranks, 0, &FlatBlock::master), whole.flat(0).weights, "master");
  const GroupRange range = whole.statistics_range(0);
  const int64_t numel = range.end - range.begin;
  const at::Tensor sum = change.narrow(0, range.begin, numel).mul(2.0);
  EXPECT_TRUE(
      at::equal(whole.flat(0).weights.narrow(0, range.begin, numel), before.narrow(0, range.begin, numel).add(sum, 1.0 / 3.0)));
  EXPECT_TRUE(at::equal(whole.flat(0).weights.narrow(0, 0, range.begin), before.narrow(0, 0, range.begin)));
}

/// Two modules with their own values; the second one's bias is frozen.
Model given_model(double value) {
  const c10::NoGradGuard no_grad;
  torch::nn::Sequential sequence(torch::nn::Linear(9, 20), torch::nn::Linear(20, 7));
  for (at::Tensor& parameter : sequence->parameters()) {
    parameter.copy_(at::randn(parameter.sizes(), at::detail::createCPUGenerator(5)).add(value));
  }
  sequence[1]->named_parameters()["bias"].requires_grad_(false);
  return sequential_model("given", sequence);
}

struct GivenCase {
  int shards;
  at::ScalarType dtype;
  bool late;
};

class GivenTest : public ::testing::TestWithParam<GivenCase> {};

TEST_P(GivenTest, ValuesAreRankZerosAndFrozenOnesStayFrozen) {
  const GivenCase& c = GetParam();
  FlatModel whole(given_model(0.0), {});
  std::map<std::string, at::Tensor> of_rank_zero;
  FlatOptions options{.num_shards = c.shards, .weight_dtype = c.dtype, .separate_shard = c.late, .late_shard = c.late};
  options.shares_given = true;
  double value = 0.0;
  FlatRanks ranks = flat_ranks([&value] { return given_model(value++); }, options);
  for (const auto& rank : ranks) {
    rank->share_given([&](const at::Tensor& values, bool, const std::string& what) {
      const auto [entry, is_first] = of_rank_zero.try_emplace(what, values.clone());
      if (!is_first) values.copy_(entry->second);
    });
  }
  EXPECT_EQ(of_rank_zero.size(), 2u);
  initialise(ranks, 3);  // draws nothing
  for (int b = 0; b < 2; ++b) {
    expect_whole(join(ranks, b, &FlatBlock::master), whole.flat(b).weights, "master");
    expect_whole(join(ranks, b, &FlatBlock::shard), whole.flat(b).weights.to(c.dtype), "shard");
  }
  for (const Param& param : ranks.back()->params()) {
    const bool frozen = param.name == "1.bias";
    EXPECT_EQ(param.group == ParamGroup::frozen, frozen) << param.name;
    EXPECT_EQ(param.parameter->value.requires_grad(), !frozen) << param.name;
    EXPECT_EQ(param.parameter->value.scalar_type(), c.dtype) << param.name;
  }
  EXPECT_EQ(ranks.back()->num_parameters(), 9 * 20 + 20 + 20 * 7);
}

INSTANTIATE_TEST_SUITE_P(Table, GivenTest,
                         ::testing::Values(GivenCase{1, at::kFloat, false}, GivenCase{2, at::kFloat, false},
                                           GivenCase{4, at::kBFloat16, false}, GivenCase{2, at::kBFloat16, true},
                                           GivenCase{4, at::kFloat, true}),
                         [](const auto& info) {
                           return "shards" + std::to_string(info.param.shards) +
                                  (info.param.dtype == at::kFloat ? "" : "_bf16") + (info.param.late ? "_late" : "");
                         });

TEST(ShardedFlat, AModuleRunsOnGatheredWeightsInBf16AndItsGradientsAddUpInFloat32) {
  FlatRanks ranks = flat_ranks([] { return given_model(0.0); }, {.num_shards = 2, .weight_dtype = at::kBFloat16});
  FlatModel& flat = *ranks.front();
  for (int b = 0; b < 2; ++b) flat.flat(b).weights.copy_(join(ranks, b, &FlatBlock::shard));
  const at::Tensor x = at::randn({3, 9}).to(at::kBFloat16);
  const int64_t bias = flat.params()[flat.flat(0).params[1]].offset;
  flat.clear_gradients(0);
  for (int pass = 1; pass <= 2; ++pass) {
    const at::Tensor y = flat.block(0).forward({x}, {})[0];
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    y.backward(at::full({3, 20}, 1.0 + 1.0 / 128, at::kBFloat16));
    flat.settle_gradients(0, {});
    const double sum = at::full({3}, 1.0 + 1.0 / 128, at::kBFloat16).sum().item<double>();
    EXPECT_TRUE(flat.flat(0).gradients.narrow(0, bias, 20).eq(pass * sum).all().item<bool>()) << "pass " << pass;
  }
}

}  // namespace
}  // namespace weft
