#include "weft/nn/flat/flat_model.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/nn/bound_layer.h"
#include "tests/nn/function_allocator.h"
#include "tests/nn/shards.h"
#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/models/gpt.h"
#include "weft/models/vision.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft {
namespace {

TEST(FlatModel, LaysBlocksOutSideBySideAligned) {
  FlatModel flat(tiny_gpt(), {});
  int64_t end = 0;
  for (int b = 0; b < flat.num_blocks(); ++b) {
    EXPECT_EQ(flat.gradient_offset(b), end);
    EXPECT_EQ(flat.flat(b).numel % kAlignElements, 0);
    end += flat.flat(b).numel;
  }
  EXPECT_EQ(flat.gradients(0, flat.num_blocks()).numel(), end);
  EXPECT_EQ(flat.gradients(1, 3).data_ptr(), flat.flat(1).gradients.data_ptr());
}

TEST(FlatModel, OrdersGroupsSoThatEachIsARange) {
  FlatModel flat(cnn({.width = 4}), {});
  const std::vector<GroupRange>& groups = flat.flat(0).groups;
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].group, ParamGroup::decay);
  EXPECT_EQ(groups[1].group, ParamGroup::no_decay);
  EXPECT_EQ(groups[2].group, ParamGroup::statistic);
  EXPECT_EQ(groups[0].end, 4 * 9);
  for (const GroupRange& group : groups) EXPECT_EQ(group.begin % kAlignElements, 0);
  EXPECT_EQ(groups[1].end - groups[1].begin, 8);
  EXPECT_EQ(groups[2].end - groups[2].begin, 8);
  EXPECT_EQ(flat.flat(0).statistics.size(), 2u);
}

TEST(FlatModel, ParametersAreViewsOfTheFlatBuffer) {
  FlatModel flat(tiny_gpt(), {});
  initialise(flat, 3);
  for (const Param& param : flat.params()) {
    const at::Tensor& value = param.parameter->value;
    EXPECT_EQ(value.data_ptr(), flat.flat(param.block).weights.data_ptr<float>() + param.offset) << param.name;
    EXPECT_TRUE(value.is_leaf() && value.requires_grad()) << param.name;
  }
}

TEST(FlatModel, DrawsByNameSoThatOtherBlocksDoNotMatter) {
  FlatModel small(gpt({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 11}), {});
  FlatModel large(tiny_gpt(), {});
  initialise(small, 3);
  initialise(large, 3);
  const auto find = [](FlatModel& flat, const std::string& name) {
    for (const Param& param : flat.params()) {
      if (param.name == name) return param.parameter->value.detach();
    }
    throw InputError(name);
  };
  EXPECT_TRUE(at::equal(find(small, "h.0.attn.c_attn.weight"), find(large, "h.0.attn.c_attn.weight")));
  EXPECT_TRUE(at::equal(find(small, "wte.weight"), find(large, "wte.weight")));
  EXPECT_FALSE(at::equal(find(large, "h.0.attn.c_attn.weight"), find(large, "h.1.attn.c_attn.weight")));
  EXPECT_TRUE(find(large, "h.0.ln_1.weight").eq(1.0).all().item<bool>());
  EXPECT_TRUE(find(large, "h.0.attn.c_attn.bias").eq(0.0).all().item<bool>());
}

TEST(FlatModel, FirstBackwardOverwritesTheNextOneAdds) {
  Parameter weight{at::ones({3}), {}};
  auto block = std::make_shared<FunctionBlock>(
      [&weight](const Tensors& in, const Context&) -> Tensors { return {in[0].mul(weight.value)}; },
      std::vector<ParamSpec>{{"weight", &weight, {}}});
  FlatModel flat = bind_block(block);
  flat.flat(0).gradients.fill_(99.0);
  flat.clear_gradients(0);
  for (int pass = 1; pass <= 2; ++pass) {
    flat.block(0).forward({at::ones({3}).mul(2.0)}, {})[0].sum().backward();
    flat.settle_gradients(0, {});
    EXPECT_TRUE(flat.flat(0).gradients.narrow(0, 0, 3).eq(2.0 * pass).all().item<bool>()) << "pass " << pass;
  }
}

TEST(FlatModel, AnUnusedParameterHasAZeroGradient) {
  Parameter used{at::ones({2}), {}}, unused{at::ones({2}), {}};
  auto block =
      std::make_shared<FunctionBlock>([&used](const Tensors& in, const Context&) -> Tensors { return {in[0].mul(used.value)}; },
                                      std::vector<ParamSpec>{{"used", &used, {}}, {"unused", &unused, {}}});
  FlatModel flat = bind_block(block);
  flat.flat(0).gradients.fill_(99.0);
  flat.clear_gradients(0);
  flat.block(0).forward({at::ones({2})}, {})[0].sum().backward();
  flat.settle_gradients(0, {});
  EXPECT_TRUE(unused.gradient.eq(0.0).all().item<bool>());
  EXPECT_TRUE(used.gradient.eq(1.0).all().item<bool>());
}

/// A pipeline stage: the middle blocks.
TEST(FlatModel, BlocksOfOtherRanksTakeNoMemoryAndChangeNothing) {
  FlatModel all(tiny_gpt(), {});
  initialise(all, 3);
  int64_t made = 0;
  const auto counting = [&made](FlatBuffer, int64_t numel, at::ScalarType dtype, const std::string&) {
    made += numel;
    return at::zeros({numel}, dtype);
  };
  FlatModel part(tiny_gpt(), {.held = {false, true, true, false},
                              .tied_copy = {false, false, true, false},
                              .allocator = std::make_shared<test::FunctionAllocator>(counting)});
  EXPECT_EQ(made, 2 * (all.flat(1).numel + all.flat(2).numel)) << "weights and gradients";
  for (int b : {1, 2}) part.initialise(b, 3);
  for (int b = 0; b < 4; ++b) {
    const bool held = b == 1 || b == 2;
    EXPECT_EQ(part.holds(b), held);
    EXPECT_EQ(part.is_tied_copy(b), b == 2);
    EXPECT_EQ(part.flat(b).numel, held ? all.flat(b).numel : 0);
    EXPECT_EQ(part.flat(b).whole_numel, all.flat(b).numel) << "same as on its holder";
    if (held) {
      EXPECT_TRUE(at::equal(part.flat(b).weights, all.flat(b).weights)) << "same random values";
    }
  }
  EXPECT_EQ(part.gradient_offset(1), 0);
  EXPECT_EQ(part.gradients(1, 3).numel(), all.flat(1).numel + all.flat(2).numel);
  EXPECT_EQ(part.num_parameters(), all.num_parameters()) << "of the whole model";
  ASSERT_EQ(part.params().size(), all.params().size());
  for (size_t i = 0; i < all.params().size(); ++i) {
    EXPECT_EQ(part.params()[i].name, all.params()[i].name);
    EXPECT_EQ(part.params()[i].offset, all.params()[i].offset) << "same place as on the ranks that are read from";
  }
}

TEST(FlatModel, GivenValuesOfOtherRanksBlocksAreLetGo) {
  Parameter here{at::ones({4}), {}}, elsewhere{at::ones({1000}), {}};
  const auto pass = [](const Tensors& in, const Context&) { return in; };
  const auto block = [&](Parameter& parameter) {
    return std::make_shared<FunctionBlock>(pass, std::vector<ParamSpec>{{"weight", &parameter, {}}});
  };
  std::vector<std::string> shared;
  Model model{.name = "test", .blocks = {{"a", "a", block(here)}, {"b", "b", block(elsewhere)}}, .loss = cross_entropy};
  FlatModel flat(std::move(model), {.held = {true, false}, .shares_given = true});
  flat.share_given([&](const at::Tensor& values, bool held, const std::string& what) {
    shared.push_back(what + (held ? ", held" : ""));
    EXPECT_EQ(values.sum().item<float>(), held ? 4.0F : 1000.0F) << "this rank's given values";
  });
  EXPECT_EQ(shared, (std::vector<std::string>{"weights of a, held", "weights of b"})) << "the giving rank may hold others";
  EXPECT_TRUE(here.value.detach().eq(1.0).all().item<bool>());
  EXPECT_EQ(elsewhere.value.storage().nbytes(), 0U);
}

TEST(FlatModel, BuffersOfBlocksThatAreNotHeld) {
  FlatModel all(tiny_gpt(), {});
  FlatModel part(tiny_gpt(), {.separate_shard = true,
                              .separate_gradients = true,
                              .held = {false, true, false, true},
                              .weight_buffer = {-1, 0, -1, 0},
                              .gradient_buffer = {-1, 1, -1, 0}});
  EXPECT_EQ(part.flat(1).weights.data_ptr(), part.flat(3).weights.data_ptr());
  EXPECT_NE(part.flat(1).gradients.data_ptr(), part.flat(3).gradients.data_ptr());
  for (int b : {1, 3}) {
    EXPECT_EQ(part.flat(b).shard.numel(), all.flat(b).numel);
    EXPECT_EQ(part.flat(b).owned_gradients.numel(), all.flat(b).numel);
  }
}

TEST(FlatModel, RefusesAWeightSharedByAccident) {
  Parameter first{at::ones({4}), {}};
  Parameter second{first.value, {}};
  const auto pass = [](const Tensors& in, const Context&) { return in; };
  Model model{.name = "test", .blocks = {}, .loss = cross_entropy, .hits = {}};
  model.blocks.push_back({"a", "a", std::make_shared<FunctionBlock>(pass, std::vector<ParamSpec>{{"weight", &first, {}}})});
  model.blocks.push_back({"b", "b", std::make_shared<FunctionBlock>(pass, std::vector<ParamSpec>{{"weight", &second, {}}})});
  try {
    FlatModel flat(std::move(model), {});
    FAIL() << "shared weight was accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("'a.weight' and 'b.weight'"), std::string::npos) << error.what();
  }
}

TEST(FlatModel, RefusesAParameterThatTwoBlocksOwn) {
  Parameter weight{at::empty({4}, at::TensorOptions(at::kFloat).device(at::kMeta)), {}};
  const auto pass = [](const Tensors& in, const Context&) { return in; };
  const auto block = [&] {
    return std::make_shared<FunctionBlock>(pass, std::vector<ParamSpec>{{"weight", &weight, {Init::Kind::constant, 1.0}}});
  };
  Model model{.name = "test", .blocks = {{"a", "a", block()}, {"b", "b", block()}}, .loss = cross_entropy, .hits = {}};
  try {
    FlatModel flat(std::move(model), {});
    FAIL() << "a parameter of two blocks was accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("'a.weight' and 'b.weight'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("NamedBlock::uses"), std::string::npos) << error.what();
  }
}

TEST(FlatModel, RefusesParametersThatAreNotFloat32) {
  Parameter weight{at::ones({4}, at::kHalf), {}};
  auto block = std::make_shared<FunctionBlock>([](const Tensors& in, const Context&) { return in; },
                                               std::vector<ParamSpec>{{"weight", &weight, {}}});
  EXPECT_THROW(bind_block(block), InputError);
}

TEST(FlatModel, RefusesAStatisticThatIsFrozen) {
  Parameter mean{at::ones({4}), {}};
  auto block = std::make_shared<FunctionBlock>(
      [](const Tensors& in, const Context&) { return in; },
      std::vector<ParamSpec>{{.name = "mean", .parameter = &mean, .init = {}, .statistic = true, .frozen = true}});
  try {
    bind_block(block);
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "model: 'block.mean' is both a running statistic, which changes, and frozen; choose one");
  }
}

TEST(FlatModel, RefusesTwoParametersOfOneName) {
  Parameter first{at::ones({4}), {}}, second{at::ones({4}), {}};
  auto block = std::make_shared<FunctionBlock>([](const Tensors& in, const Context&) { return in; },
                                               std::vector<ParamSpec>{{"weight", &first, {}}, {"weight", &second, {}}});
  EXPECT_THROW(bind_block(block), InputError);
}

}  // namespace
}  // namespace weft
