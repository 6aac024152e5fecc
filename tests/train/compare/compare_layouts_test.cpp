// compare_layouts() on correct layouts, and on mistakes planted in programs and models: the first parameter that shows it, the
// step, and the part of the layout that causes it.
#include "weft/train/compare/compare_layouts.h"

#include <ATen/ops/bernoulli.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ostream>
#include <thread>
#include <utility>

#include "tests/support/run_ranks.h"
#include "tests/train/compare/broken_programs.h"
#include "weft/base/error.h"
#include "weft/models/vision.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/train/compare/comparison_text.h"

namespace weft::compare_layouts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kGlobal = 8, kMicro = 1, kInputs = 6, kClasses = 3;

/// The second half of the samples has two targets that count, the first has all: a mean of means shows.
Batch batch_of(int64_t step) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
  const at::Tensor x = at::randn({kGlobal, kInputs}, generator, at::kFloat);
  at::Tensor target = at::randint(kClasses, {kGlobal}, generator, at::kLong);
  target.narrow(0, kGlobal / 2, 2).fill_(kIgnore);
  return {{x}, target, step * kGlobal};
}

/// Four blocks: hidden.0 to hidden.2, and the head.
Model small_mlp() { return mlp({.inputs = kInputs, .width = 8, .layers = 3, .classes = kClasses}); }

struct Case {
  std::string name;
  std::vector<AxisSize> axes;
  TrainerOptions options = {};
  std::function<Model()> model = small_mlp;
  std::function<void(const Mesh&, TrainerOptions&)> prepare = {};
  OptimizerOptions optimizer = Sgd{.lr = 0.1};
  std::vector<std::string> causes = {};
  bool together = false;
  std::string first = {};
  int64_t step = 1;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

LayoutsToCompare to_compare(const Case& c) {
  LayoutsToCompare compared{
      .layout = {.axes = c.axes, .options = c.options},
      .trained = {.model = c.model, .optimizer = c.optimizer, .batches = whole_batches(batch_of), .prepare = c.prepare}};
  compared.layout.options.global_batch = kGlobal;
  compared.layout.options.micro_batch = kMicro;
  compared.layout.options.bucket_bytes = 1;
  return compared;
}

/// The result on rank 0; all ranks have the verdict.
LayoutComparison compare(const Case& c) {
  LayoutComparison result;
  const LayoutsToCompare compared = to_compare(c);
  test::run_ranks(compared.layout.ranks(), [&](World world) {
    LayoutComparison mine = compare_layouts(world, compared);
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

TrainerOptions with_level(ShardLevel level, int slots = 0, double clip = 0.0) {
  return {.clip = clip, .reproducible_slots = slots, .layout = {.shard_level = level}};
}

TrainerOptions in_slots(LayoutOptions layout = {}) { return {.clip = 0.5, .reproducible_slots = 4, .layout = layout}; }

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

class Right : public ::testing::TestWithParam<Case> {};

TEST_P(Right, IsBitIdentical) {
  const LayoutComparison result = compare(GetParam());
  EXPECT_EQ(result.match, LayoutMatch::bit_identical) << (result.first() ? result.first()->what : "");
  EXPECT_TRUE(result.exact);
  EXPECT_EQ(result.first(), nullptr);
  EXPECT_EQ(result.parameters, 8);
}

INSTANTIATE_TEST_SUITE_P(
    CompareLayouts, Right,
    ::testing::Values(Case{"one", {}, in_slots({.recompute_every = 1})}, Case{"dp", {{"dp", 2}}, in_slots()},
                      Case{"shard", {{"shard", 2}}, in_slots({.shard_level = ShardLevel::parameters})},
                      Case{"pp", {{"pp", 2}}, in_slots()},
                      Case{"hybrid", {{"dp", 2}, {"shard", 2}}, in_slots({.shard_level = ShardLevel::gradients})},
                      Case{"all", {{"pp", 2}, {"dp", 2}}, in_slots({.recompute_every = 1}), small_mlp, {}, AdamW{}}),
    name_of);

class Broken : public ::testing::TestWithParam<Case> {};

TEST_P(Broken, IsFound) {
  const Case& c = GetParam();
  const LayoutComparison result = compare(c);
  ASSERT_EQ(result.match, LayoutMatch::different);
  EXPECT_TRUE(result.repeats);
  EXPECT_EQ(result.causes, c.causes);
  EXPECT_EQ(result.together, c.together);
  ASSERT_NE(result.first(), nullptr);
  EXPECT_EQ(result.first()->what, c.first);
  EXPECT_EQ(result.first()->step, c.step);
}

Case program_case(const std::string& name, std::vector<AxisSize> axes, TrainerOptions options, const Breakage& breakage,
                  std::vector<std::string> causes, const std::string& first, int64_t step = 1) {
  const Sgd sgd{.lr = 0.1};
  return {.name = name,
          .axes = std::move(axes),
          .options = std::move(options),
          .prepare = broken(small_mlp, sgd, breakage),
          .optimizer = sgd,
          .causes = std::move(causes),
          .together = name == "bucket_not_reduced_over_both",
          .first = first,
          .step = step};
}

const std::vector<AxisSize> kDp = {{"dp", 2}}, kShard = {{"shard", 2}}, kPp = {{"pp", 2}};
const std::vector<AxisSize> kHybrid = {{"dp", 2}, {"shard", 2}}, kPpDp = {{"pp", 2}, {"dp", 2}};

INSTANTIATE_TEST_SUITE_P(
    Program, Broken,
    ::testing::Values(
        program_case("bucket_not_reduced", kDp, in_slots(), without_op(Op::reduce, 1), {"dp"}, "gradient norm"),
        program_case("bucket_not_reduced_no_slots", kDp, {}, without_op(Op::reduce, 1), {"dp"}, "hidden.1.linear.bias"),
        program_case("bucket_not_reduced_in_pipeline", kPpDp, {}, without_op(Op::reduce, 1), {"dp"}, "hidden.1.linear.bias"),
        program_case("bucket_not_reduced_over_both", kHybrid, {}, without_op(Op::reduce, 1), {"dp", "shard"},
                     "hidden.1.linear.bias"),
        program_case("bucket_reduced_twice", kDp, {}, twice(Op::reduce, 1), {"dp"}, "hidden.1.linear.bias"),
        program_case("shards_not_reduced_over_replicas", kHybrid, with_level(ShardLevel::optimizer), without_op(Op::reduce, 1),
                     {"dp"}, "hidden.1.linear.bias"),
        program_case("second_micro_batch_not_scattered", kShard, with_level(ShardLevel::gradients),
                     without_second(Op::reduce_scatter, 2), {"layout.shard_level"}, "hidden.2.linear.bias"),
        program_case("updated_before_reduced", kDp, {}, comes_last(Op::reduce, 2), {"dp"}, "hidden.2.linear.bias"),
        program_case("not_gathered_after_update", kShard, with_level(ShardLevel::optimizer), without_op(Op::gather, 0),
                     {"shard", "layout.shard_level"}, "loss", 2),
        program_case("norm_of_a_shard", kShard, with_level(ShardLevel::optimizer, 0, 0.1), over_axes(Op::norm, kNoAxes),
                     {"shard", "layout.shard_level"}, "gradient norm"),
        program_case("norm_counted_twice", kDp, with_level(ShardLevel::none, 0, 0.1), over_axes(Op::norm, kDataAxes), {"dp"},
                     "gradient norm"),
        program_case("norm_of_a_stage", kPpDp, with_level(ShardLevel::none, 0, 0.1), over_axes(Op::norm, kNoAxes), {"pp"},
                     "gradient norm"),
        program_case("losses_not_summed", kDp, {}, without_op(Op::reduce_loss), {"dp"}, "loss")),
    name_of);

/// The rank's coordinate, visible to a test's model, which no real model should use.
thread_local int this_coordinate = 0;
thread_local int this_share = 1;

std::function<void(const Mesh&, TrainerOptions&)> knows(const std::string& axis) {
  return [axis](const Mesh& mesh, TrainerOptions&) {
    this_coordinate = mesh.coordinate(axis);
    this_share = mesh.size(axis);
  };
}

/// Runs a block, and then does something to its output.
class Wrapped : public Block {
 public:
  using Change = std::function<at::Tensor(const at::Tensor& y, const Context& context)>;
  Wrapped(std::shared_ptr<Block> block, Change change) : block_(std::move(block)), change_(std::move(change)) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {change_(block_->forward(inputs, context).front(), context)};
  }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }
  bool always_uses_all() const override { return block_->always_uses_all(); }

 private:
  std::shared_ptr<Block> block_;
  Change change_;
};

/// The third block, which a pipeline of two has on its second stage.
Model changed(Wrapped::Change change) {
  Model model = small_mlp();
  model.blocks[2].block = std::make_shared<Wrapped>(model.blocks[2].block, std::move(change));
  return model;
}

Model drops_by_rank() {
  return changed([rank = this_coordinate](const at::Tensor& y, const Context& context) {
    const auto seed = static_cast<uint64_t>(1000 * rank + 100 * context.step + context.first_sample);
    return y.mul(at::bernoulli(at::ones_like(y), 0.5, at::detail::createCPUGenerator(seed)));
  });
}

Model scales_by_rank() {
  return changed([rank = this_coordinate](const at::Tensor& y, const Context&) { return y.mul(1.0 + 0.1 * rank); });
}

/// Like a batch norm whose running mean is not declared to weft.
Model keeps_a_mean() {
  return changed([mean = std::make_shared<at::Tensor>(at::zeros({8}))](const at::Tensor& y, const Context&) {
    *mean = mean->mul(0.9).add(y.detach().mean(0), 0.1);
    return y.sub(*mean);
  });
}

/// Another output the second time that a sample comes by in a step.
Model counts_its_forwards() {
  return changed([last = std::make_shared<int64_t>(-1)](const at::Tensor& y, const Context& context) {
    const bool again = std::exchange(*last, context.first_sample) == context.first_sample;
    return again ? y.mul(1.1) : y;
  });
}

/// The mean over the rank's own targets: half of the samples have more targets.
Model means_of_means() {
  Model model = small_mlp();
  const bool first_half = this_coordinate == 0;
  model.loss = [share = this_share, first_half](const Tensors& outputs, const at::Tensor& target) {
    LossValue value = cross_entropy(outputs, target);
    const double own = share == 1 ? 6 : first_half ? 4 : 2;
    value.sum = value.sum.mul(6.0 / share / own);
    return value;
  };
  return model;
}

Case model_case(const std::string& name, std::vector<AxisSize> axes, TrainerOptions options, std::function<Model()> model,
                const std::string& axis, std::vector<std::string> causes, const std::string& first) {
  return {.name = name,
          .axes = std::move(axes),
          .options = std::move(options),
          .model = std::move(model),
          .prepare = knows(axis),
          .causes = std::move(causes),
          .first = first};
}

INSTANTIATE_TEST_SUITE_P(
    Model, Broken,
    ::testing::Values(model_case("drops_by_replica", kDp, in_slots(), drops_by_rank, "dp", {"dp"}, "loss"),
                      model_case("drops_by_replica_of_pipelines", kPpDp, {}, drops_by_rank, "dp", {"dp"}, "loss"),
                      model_case("scales_by_shard", kHybrid, in_slots(), scales_by_rank, "shard", {"shard"}, "loss"),
                      model_case("scales_by_stage", kPpDp, {}, scales_by_rank, "pp", {"pp"}, "loss"),
                      model_case("keeps_a_mean", kDp, in_slots(), keeps_a_mean, "dp", {"dp"}, "loss"),
                      model_case("means_of_means", kDp, {}, means_of_means, "dp", {"dp"}, "loss"),
                      model_case("counts_its_forwards", kDp, in_slots({.recompute_every = 1}), counts_its_forwards, "dp",
                                 {"layout.recompute"}, "gradient norm")),
    name_of);

/// A function of the inputs.
class Function : public Block {
 public:
  explicit Function(std::function<Tensors(const Tensors&)> function) : function_(std::move(function)) {}
  Tensors forward(const Tensors& inputs, const Context&) override { return function_(inputs); }
  std::vector<ParamSpec> parameters() override { return {}; }

 private:
  std::function<Tensors(const Tensors&)> function_;
};

/// Adds one number to all logits of a sample, as a sum over its weights: their gradients are truly zero, and rounding gives
/// them random signs.
class Shift : public Block {
 public:
  explicit Shift(int64_t classes) : bias_(meta_parameter({3 * classes})) {}
  Tensors forward(const Tensors& inputs, const Context&) override {
    const at::Tensor x = inputs[0].detach();
    return {inputs[0].add(at::cat({x, x.square(), x.exp()}, -1).mul(bias_.value).sum(-1, /*keepdim=*/true))};
  }
  std::vector<ParamSpec> parameters() override { return {{"bias", &bias_, {.kind = Init::Kind::constant}}}; }

 private:
  Parameter bias_;
};

// Many classes: with few, the probabilities may add up to exactly 1.
Model with_shift() {
  constexpr int64_t kMany = 40;
  Model model = mlp({.inputs = kInputs, .width = 8, .layers = 3, .classes = kMany});
  model.blocks.push_back({.name = "shift", .prefix = "shift", .block = std::make_shared<Shift>(kMany)});
  return model;
}

// AdamW makes whole steps of the noise that is the gradient of the shift.
TEST(CompareLayouts, DistinguishesRoundingFromMistakes) {
  const Case right{.name = "right", .axes = {{"dp", 2}, {"tp", 2}}, .model = with_shift, .optimizer = AdamW{.lr = 0.01}};
  const LayoutComparison result = compare(right);
  EXPECT_EQ(result.match, LayoutMatch::within_rounding);
  EXPECT_FALSE(result.exact);
  ASSERT_NE(result.largest(), nullptr);
  EXPECT_EQ(result.largest()->what, "shift.bias");
  EXPECT_GT(result.largest()->relative, 1e-3) << "nothing that a fixed tolerance would take for rounding";
  Case wrong = right;
  wrong.prepare = broken(with_shift, wrong.optimizer, without_op(Op::reduce, 1));
  const LayoutComparison found = compare(wrong);
  EXPECT_EQ(found.match, LayoutMatch::different);
  EXPECT_THAT(found.causes, ElementsAre("dp"));
  ASSERT_NE(found.first(), nullptr);
  EXPECT_THAT(found.first()->what, ::testing::StartsWith("hidden.1.linear."));
}

/// Passes on what a sample has, or nothing, by a number near 1, as a ReLU does near 0. A data-parallel run's is 16 units off.
Model with_kink() {
  constexpr double kUnit = 0x1p-23;
  const double threshold = this_share > 1 ? 1.0 - 8.0 * kUnit : 1.0 + 8.0 * kUnit;
  Model model = small_mlp();
  const auto near_one = [](const Tensors& in) { return Tensors{in[0], in[0].narrow(1, 0, 1).mul(0.0).add(1.0)}; };
  const auto kink = [threshold](const Tensors& in) { return Tensors{in[0].mul(in[1].detach().lt(threshold))}; };
  const auto at = model.blocks.begin() + 2;
  model.blocks.insert(
      at, {{"near_one", "near_one", std::make_shared<Function>(near_one)}, {"kink", "kink", std::make_shared<Function>(kink)}});
  return model;
}

TEST(CompareLayouts, TakesWhatRoundingChangesAtAKinkForRounding) {
  const Case right{.name = "kink", .axes = kDp, .model = with_kink, .prepare = knows("dp")};
  const LayoutComparison result = compare(right);
  EXPECT_EQ(result.match, LayoutMatch::within_rounding);
  ASSERT_NE(result.largest(), nullptr);
  EXPECT_GT(result.largest()->relative, 1e-2);
}

TEST(CompareLayouts, SaysThatAModelDoesNotRepeat) {
  static std::atomic<int> calls = 0;
  const auto model = [] { return changed([](const at::Tensor& y, const Context&) { return y.mul(1.0 + 0.001 * ++calls); }); };
  const LayoutComparison result = compare({.name = "counts", .axes = kDp, .options = in_slots(), .model = model});
  EXPECT_EQ(result.match, LayoutMatch::different);
  EXPECT_FALSE(result.repeats);
  EXPECT_TRUE(result.causes.empty());
  EXPECT_TRUE(result.tried.empty());
  EXPECT_EQ(result.not_repeated.what, "block 'hidden.2'");
  EXPECT_TRUE(result.not_repeated.at_once);
}

/// Adds `what`, which may have state of its own, neither a parameter nor a buffer.
Model with_added(const std::function<at::Tensor(const at::Tensor&)>& what) {
  Model model = small_mlp();
  const auto add = [what](const Tensors& in) { return Tensors{in.front().add(what(in.front()))}; };
  model.blocks.insert(model.blocks.begin() + 2, {"own", "own", std::make_shared<Function>(add)});
  return model;
}

TEST(CompareLayouts, NamesTheBlockThatDoesNotRepeat) {
  struct Row {
    std::function<Model()> model;
    std::string what;
    bool at_once;
  };
  static std::atomic<uint64_t> seeds = 0;
  // A generator owned by the block, made alike in each run; a tensor drawn in the block's constructor; and the correct way.
  const auto generator = [] {
    return with_added(
        [own = at::detail::createCPUGenerator(3)](const at::Tensor& x) { return at::randn(x.sizes(), own, at::kFloat); });
  };
  const auto kept = [] {
    const at::Tensor drawn = at::randn({8}, at::detail::createCPUGenerator(++seeds), at::kFloat);
    return with_added([drawn](const at::Tensor&) { return drawn; });
  };
  const auto keyed = [] { return with_added([](const at::Tensor& x) { return at::randn(x.sizes(), x.options()); }); };
  for (const Row& row : {Row{generator, "block 'own'", true}, {kept, "block 'own'", false}, {keyed, "", false}}) {
    const LayoutComparison result = compare({.name = "one", .axes = {}, .options = in_slots(), .model = row.model});
    EXPECT_EQ(result.not_repeated.what, row.what);
    EXPECT_EQ(result.not_repeated.at_once, row.at_once);
    EXPECT_EQ(result.repeats, row.what.empty() || row.at_once);
    EXPECT_EQ(result.match, row.what.empty() ? LayoutMatch::bit_identical : LayoutMatch::different);
    if (row.what.empty()) continue;
    EXPECT_THAT(difference_line(result), HasSubstr("the forward of block 'own' gives different outputs for the same inputs"));
    EXPECT_THAT(comparison_text(result), HasSubstr("the forward of block 'own' gives different outputs for the same inputs"));
  }
}

TEST(CompareLayouts, ReportsDataThatDoNotRepeat) {
  static std::atomic<int64_t> reads = 0;
  Case c{.name = "data", .axes = {}, .options = in_slots()};
  LayoutsToCompare compared = to_compare(c);
  compared.trained.batches = whole_batches([](int64_t) { return batch_of(++reads); });
  const LayoutComparison result = compare_layouts(World(), compared);
  EXPECT_EQ(result.not_repeated.what, "the data");
  EXPECT_THAT(difference_line(result), HasSubstr("its data differ the second time"));
}

/// Every rank's error.
std::vector<std::string> errors_of(const Case& c) {
  const LayoutsToCompare compared = to_compare(c);
  std::vector<std::string> errors(static_cast<size_t>(compared.layout.ranks()));
  test::run_ranks(compared.layout.ranks(), [&](World world) {
    try {
      compare_layouts(world, compared);
    } catch (const Error& error) {
      errors[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  return errors;
}

/// Throws on the last rank where the mesh has so many ranks.
Model throws_on(int ranks) {
  return changed([mine = this_coordinate == ranks - 1 && this_share == ranks](const at::Tensor& y, const Context&) {
    if (mine) throw std::runtime_error("no luck");
    return y;
  });
}

// In the last case the mistake is elsewhere, and the run that searches for it fails: on two ranks, while two are idle.
TEST(CompareLayouts, AnErrorNamesItsLayoutOnAllRanks) {
  const auto knows_world = [](const Mesh& mesh, TrainerOptions&) {
    this_coordinate = mesh.world().rank();
    this_share = mesh.world().size();
  };
  for (const auto& [ranks, where] : {std::pair{1, "(in the run on one device)"}, {2, "(in the run on dp 2)"}}) {
    const Case c{.name = "all",
                 .axes = kDp,
                 .options = in_slots(),
                 .model = [ranks = ranks] { return throws_on(ranks); },
                 .prepare = knows_world};
    for (const std::string& error : errors_of(c)) {
      EXPECT_THAT(error, HasSubstr("no luck"));
      EXPECT_THAT(error, HasSubstr(where));
    }
  }
  const auto both = [=, remove = broken(small_mlp, Sgd{.lr = 0.1}, without_op(Op::reduce, 1))](const Mesh& mesh,
                                                                                               TrainerOptions& options) {
    remove(mesh, options);
    knows_world(mesh, options);
  };
  const std::vector<std::string> part =
      errors_of({.name = "part", .axes = kHybrid, .model = [] { return throws_on(2); }, .prepare = both});
  for (const std::string& error : part) {
    EXPECT_THAT(error, HasSubstr("no luck"));
    EXPECT_THAT(error, HasSubstr("(in the run on shard 2, without dp)"));
  }
}

// A start that ranks disagree on is reported by them, too.
TEST(CompareLayouts, ModelsThatDependOnTheRankAreRefused) {
  const auto model = [] {
    Model model = small_mlp();
    model.blocks.push_back(
        {.name = "shift", .prefix = this_coordinate == 0 ? "a" : "b", .block = std::make_shared<Shift>(kClasses)});
    return model;
  };
  for (const std::string& error :
       errors_of({.name = "names", .axes = kDp, .options = in_slots(), .model = model, .prepare = knows("dp")})) {
    EXPECT_THAT(error, HasSubstr("rank 1 would train differently from rank 0"));
    EXPECT_THAT(error, HasSubstr("(in the run on dp 2)"));
  }
}

// The run on one device takes longer than any wait may; a single step does not.
TEST(CompareLayouts, ALongRunOnOneDeviceIsNoLostRank) {
  const auto model = [] {
    return changed([alone = this_share == 1](const at::Tensor& y, const Context&) {
      if (alone) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return y;
    });
  };
  TrainerOptions options = in_slots();
  options.communication.timeout = std::chrono::milliseconds(1000);
  const LayoutComparison result =
      compare({.name = "slow", .axes = kDp, .options = options, .model = model, .prepare = knows("dp")});
  EXPECT_EQ(result.match, LayoutMatch::bit_identical);
}

TEST(CompareLayouts, RefusesWhatCannotBeCompared) {
  LayoutsToCompare none = to_compare({.name = "none", .axes = {{"dp", 1}}});
  none.trained.steps = 0;
  EXPECT_THROW(compare_layouts(World(), none), InputError);
  EXPECT_THROW(compare_layouts(World(), to_compare({.name = "two", .axes = kDp})), InputError);
}

}  // namespace
}  // namespace weft::compare_layouts_test
