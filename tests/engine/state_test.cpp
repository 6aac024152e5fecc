// The engine on lists with recompute, offload and skipped updates (fp16's loss scale).
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/lists.h"
#include "tests/engine/recorder.h"
#include "tests/nn/function_allocator.h"
#include "tests/support/run_ranks.h"
#include "weft/base/exact_sum.h"
#include "weft/comm/mesh.h"
#include "weft/engine/host_store.h"
#include "weft/nn/layers/layers.h"

namespace weft {
namespace {

using Log = std::vector<std::string>;

TEST(Engine, RunsADroppedBlockOnceMore) {
  Log log;
  FlatModel model(logged_model(log, 2), {});
  LoggedUpdater updater(log);
  const Program program = with_list({load(0), forward(0, 0), forward(1, 0), drop(0, 0), loss(0), drop(1, 0), forward(1, 0),
                                     backward(1, 0), forward(0, 0), backward(0, 0), reduce_loss(), update(0), update(1)},
                                    2, 1);
  Engine engine(model, program, 0, updater, local(1));
  engine.step(0, counted());
  EXPECT_EQ(log, (Log{"F0 of 1", "F1 of 1", "loss", "F1 of 1", "B1 of 1", "F0 of 1", "B0 of 1", "U0", "U1"}));
}

TEST(Engine, DropsKeptActivationsExceptTheInput) {
  Log log;
  std::vector<WeakStorage> kept;
  const auto alive = [&kept] {
    int count = 0;
    for (const WeakStorage& storage : kept) count += storage.expired() ? 0 : 1;
    return count;
  };
  std::vector<int> seen;
  Model chain = logged_model(log, 2);
  for (int b = 0; b < 2; ++b) {
    const auto run = [&, inner = chain.blocks[b].block](const Tensors& in, const Context& context) -> Tensors {
      seen.push_back(alive());
      const at::Tensor squared = inner->forward(in, context)[0].square();  // keeps its operand
      const at::Tensor made = squared.mul(squared);
      kept.push_back(squared.storage().getWeakStorageImpl());
      return {made};
    };
    chain.blocks[b].block = std::make_shared<FunctionBlock>(run, chain.blocks[b].block->parameters());
  }
  FlatModel model(std::move(chain), {});
  IdleUpdater updater;
  const Program program = with_list({load(0), forward(0, 0), forward(1, 0), drop(0, 0), loss(0), backward(1, 0), forward(0, 0),
                                     backward(0, 0), reduce_loss(), update(0), update(1)},
                                    2, 1);
  Engine engine(model, program, 0, updater, local(1));
  engine.step(0, counted());
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 0})) << "when block 0, block 1 and block 0 again begin";
}

TEST(Engine, StatisticsMoveOnceHoweverOftenABlockRuns) {
  const at::Tensor x = at::randn({5, 2, 4, 4});
  const auto run = [&x](bool again) {
    auto layer = std::make_shared<BatchNorm2d>(2);
    std::vector<ParamSpec> specs;
    layer->describe(specs, "bn");
    Model chain{.name = "test", .blocks = {}, .loss = sum_loss, .hits = {}};
    const auto block = [layer](const Tensors& in, const Context& context) -> Tensors {
      return {(*layer)(in[0], context).square()};
    };
    chain.blocks.push_back({"bn", "bn", std::make_shared<FunctionBlock>(block, specs)});
    FlatModel model(std::move(chain), {});
    model.initialise(0, /*seed=*/1);
    IdleUpdater updater;
    InstructionList list = {load(0), forward(0, 0), loss(0)};
    if (again) list.insert(list.end(), {drop(0, 0), forward(0, 0)});
    list.insert(list.end(), {backward(0, 0), reduce_loss(), update(0)});
    const Program program = with_list(list, 1, 1);
    Engine engine(model, program, 0, updater, local(1));
    for (int64_t step = 0; step < 2; ++step) engine.step(step, [&] { return MicroBatch{{x}, at::zeros({5})}; });
    return Tensors{model.flat(0).weights.clone(), model.flat(0).gradients.clone()};
  };
  const Tensors once = run(false), twice = run(true);
  EXPECT_TRUE(at::equal(once[0], twice[0]));
  EXPECT_TRUE(at::equal(once[1], twice[1]));
}

TEST(Engine, MovesActivationsOutAndBack) {
  Log log;
  FlatModel plain(logged_model(log, 2), {}), moved(logged_model(log, 2), {});
  IdleUpdater updater;
  const auto activation = Payload::input;
  const Program stays = plain_program(2, 2);
  const Program moves = with_list({load(0),
                                   forward(0, 0),
                                   forward(1, 0),
                                   loss(0),
                                   drop(1, 0),
                                   offload(activation, 1, 0),
                                   reload(activation, 1, 0),
                                   forward(1, 0),
                                   backward(1, 0),
                                   backward(0, 0),
                                   load(1),
                                   forward(0, 1),
                                   forward(1, 1),
                                   loss(1),
                                   drop(1, 1),
                                   offload(activation, 1, 1),
                                   reload(activation, 1, 1),
                                   forward(1, 1),
                                   backward(1, 1),
                                   backward(0, 1),
                                   reduce_loss(),
                                   update(0),
                                   update(1)},
                                  2, 2);
  EngineOptions options = local(2);
  options.offload.activations = host_offload();
  Engine one(plain, stays, 0, updater, local(2)), other(moved, moves, 0, updater, options);
  for (int64_t step = 0; step < 2; ++step) {
    EXPECT_EQ(one.step(step, counted()).loss, other.step(step, counted()).loss);
    EXPECT_TRUE(at::equal(plain.gradients(0, 2), moved.gradients(0, 2))) << "step " << step;
    EXPECT_TRUE(plain.gradients(0, 2).ne(0.0).any().item<bool>());
  }
}

TEST(Engine, MovesOptimizerStateOutAndBack) {
  Parameter weight{at::zeros({64}), {}};
  FlatModel model(weighted_sum(weight), {});
  CountingUpdater updater(model);
  const auto state = Payload::optimizer;
  const Program program = with_list(
      {load(0), forward(0, 0), loss(0), backward(0, 0), reduce_loss(), reload(state, 0), update(0), offload(state, 0)}, 1, 1);
  EngineOptions options = local(1);
  options.offload.optimizer = host_offload();
  Engine engine(model, program, 0, updater, options);
  for (int64_t step = 0; step < 3; ++step) {
    engine.step(step, [] { return MicroBatch{{at::ones({1, 64})}, at::zeros({1})}; });
    EXPECT_FALSE(updater.state(0)[0].defined()) << "between steps it is offloaded";
  }
  EXPECT_TRUE(weight.value.detach().eq(1.0 + 2.0 + 3.0).all().item<bool>());
}

/// Updates from its own part, once joined with those of the other shards.
class WholeUpdater : public IdleUpdater {
 public:
  bool accept(double) override { return accepts; }
  at::Tensor part_of_gradients(int block, double divisor) override {
    log.push_back(fmt::format("part {} by {}", block, divisor));
    return at::full({64}, 3.0, at::kBFloat16);
  }
  void take_gradients(int, const at::Tensor& whole) override { whole_ = whole; }
  void update(int block, double) override {
    const bool there = whole_.defined() && whole_.numel() == 64 && whole_.eq(3.0).all().item<bool>();
    log.push_back(fmt::format("update {} {}", block, there ? "by the whole" : "without"));
  }
  bool accepts = true;
  Log log;

 private:
  at::Tensor whole_;
};

TEST(Engine, PutsGradientsSideBySideForTheUpdate) {
  Parameter weight{at::ones({64}), {}};
  FlatModel model(weighted_sum(weight), {});
  WholeUpdater updater;
  const Program program = with_list(
      {load(0), forward(0, 0), loss(0), backward(0, 0), reduce_loss(), norm(1), on_block(Op::gather_gradients, 0), update(0)},
      1, 1);
  Engine engine(model, program, 0, updater, local(1));
  const auto step = [&] { engine.step(0, [] { return MicroBatch{{at::ones({1, 64})}, at::zeros({1})}; }); };
  step();
  EXPECT_EQ(updater.log, (Log{"part 0 by 1", "update 0 by the whole"}));
  updater.log.clear();
  updater.accepts = false;
  step();
  EXPECT_EQ(updater.log, Log{}) << "a skipped step gathers nothing";
}

/// Uses the norm, and skips the step if it exceeds a limit.
class ScaledUpdater : public LoggedUpdater {
 public:
  ScaledUpdater(Log& log, FlatModel& model, double scale) : LoggedUpdater(log), model_(model), scale_(scale) {}
  void add_squares(const at::Tensor& words) override {
    ExactSum sum;
    sum.add(model_.flat(0).gradients.square().sum().item<double>());
    words.copy_(at::tensor(at::ArrayRef<int64_t>(sum.words()), at::kLong));
  }
  bool accept(double norm) override { return norm <= limit; }
  void update(int block, double d) override {
    LoggedUpdater::update(block, d);
    divisor = d;
  }
  double loss_scale() const override { return scale_; }
  double limit = 1e9, divisor = 0.0;

 private:
  FlatModel& model_;
  double scale_;
};

TEST(Engine, ScalesTheLossAndLeavesOutAStepThatIsNotAccepted) {
  Log log;
  Parameter weight{at::ones({4}), {}};
  FlatModel model(weighted_sum(weight), {});
  ScaledUpdater updater(log, model, 1024.0);
  const Program program = with_list({load(0), forward(0, 0), loss(0), backward(0, 0), reduce_loss(), norm(1), update(0)}, 1, 1);
  Engine engine(model, program, 0, updater, local(1));
  const auto step = [&] { return engine.step(0, [] { return MicroBatch{{at::full({1, 4}, 3.0)}, at::zeros({1})}; }); };
  const StepResult good = step();
  EXPECT_DOUBLE_EQ(good.loss, 12.0) << "as without a scale";
  EXPECT_DOUBLE_EQ(good.norm, 6.0) << "as without a scale";
  EXPECT_TRUE(weight.value.grad().eq(3.0 * 1024.0).all().item<bool>());
  EXPECT_DOUBLE_EQ(updater.divisor, 1024.0);
  EXPECT_FALSE(good.skipped);
  EXPECT_EQ(log, Log{"U0"});
  updater.limit = 5.0;
  EXPECT_TRUE(step().skipped);
  EXPECT_EQ(log, Log{"U0"}) << "no second update";
  updater.limit = 7.0;
  EXPECT_FALSE(step().skipped);
  EXPECT_EQ(log, (Log{"U0", "U0"}));
}

/// Each rank reads its own sample; the shards of the sum of the gradients add up over micro-batches.
TEST(Engine, ReduceScatterAddsUpOverMicroBatchesAndMasterWeightsAreWholeEverywhere) {
  test::run_ranks(2, [](const World& world) {
    const Mesh mesh(world, {{"shard", 2}});
    const Group shards = mesh.group(mesh.axis("shard"), {});
    const int rank = shards.rank();
    Parameter weight{at::full({100}, 10.0 + rank), {}};
    FlatModel model(weighted_sum(weight),
                    {.num_shards = 2,
                     .shard = rank,
                     .separate_gradients = true,
                     .allocator = std::make_shared<test::FunctionAllocator>([&](FlatBuffer buffer, int64_t numel,
                                                                                at::ScalarType dtype, const std::string& what) {
                       return buffer == FlatBuffer::weights ? shards.allocate(numel, dtype, what) : at::zeros({numel}, dtype);
                     })});
    CountingUpdater updater(model);
    Program program = with_list(
        {load(0), forward(0, 0), loss(0), backward(0, 0), on_block(Op::reduce_scatter, 0, 0), load(1), forward(0, 1), loss(1),
         backward(0, 1), on_block(Op::reduce_scatter, 0, 1), reduce_loss(), update(0), on_block(Op::gather, 0)},
        1, 2);
    program.shard_level = ShardLevel::gradients;
    program.shards = 2;
    EngineOptions options{.groups = {{kDataAxes, shards}, {kShardAxis, shards}}, .all_micro_batches = 4};
    options.first_micro_batch = 2 * rank;
    Engine engine(model, program, 0, updater, options);
    engine.initialise();
    const at::Tensor start = engine.master_weights(0)[0];
    EXPECT_TRUE(start.narrow(0, 0, 64).eq(10.0).all().item<bool>()) << "each rank's own part";
    EXPECT_TRUE(start.narrow(0, 64, 36).eq(11.0).all().item<bool>());
    for (int64_t step = 0; step < 2; ++step) {  // a step starts from nothing
      engine.step(step, [&, micro = 0]() mutable {
        return MicroBatch{{at::full({1, 100}, 1.0 + 2 * rank + micro++)}, at::zeros({1})};
      });
      const int64_t own = rank == 0 ? 64 : 36;
      EXPECT_TRUE(model.flat(0).owned_gradients.narrow(0, 0, own).eq((1.0 + 2 + 3 + 4) / 4).all().item<bool>());
    }
    EXPECT_TRUE(at::equal(weight.value.detach(), start.narrow(0, 0, 100).add(1.0 + 2.0))) << "gathered";
    EXPECT_TRUE(at::equal(engine.master_weights(0)[0].narrow(0, 0, 100), weight.value.detach()));
  });
}

TEST(Engine, OffloadedWeightsAreReloadedForOthersToRead) {
  test::run_ranks(2, [](const World& world) {
    const Mesh mesh(world, {{"shard", 2}});
    const Group shards = mesh.group(mesh.axis("shard"), {});
    Parameter weight{at::zeros({100}, at::TensorOptions(at::kFloat).device(at::kMeta)), {}};
    Model chain = weighted_sum(weight);
    auto block = std::make_shared<FunctionBlock>(
        [&weight](const Tensors& in, const Context&) -> Tensors { return {in[0].mul(weight.value)}; },
        std::vector<ParamSpec>{{"weight", &weight, {Init::Kind::normal, 0.0, 1.0}}});
    chain.blocks[0].block = block;
    FlatModel model(std::move(chain), {.num_shards = 2,
                                       .shard = shards.rank(),
                                       .weight_dtype = at::kBFloat16,
                                       .separate_shard = true,
                                       .late_shard = true,
                                       .separate_gradients = true});
    IdleUpdater updater;
    Program program = plain_program(1, 1);
    program.shard_level = ShardLevel::parameters;
    program.shards = 2;
    EngineOptions options{.groups = {{kDataAxes, shards}, {kShardAxis, shards}}, .seed = 3, .all_micro_batches = 2};
    options.offload.weights = host_offload();
    Engine engine(model, program, 0, updater, options);
    engine.initialise();
    EXPECT_FALSE(model.flat(0).master.defined()) << "offloaded";
    Parameter alone{at::zeros({100}, at::TensorOptions(at::kFloat).device(at::kMeta)), {}};
    FlatModel whole = FlatModel({.name = "sum",
                                 .blocks = {{"sum", "sum",
                                             std::make_shared<FunctionBlock>(
                                                 [](const Tensors& in, const Context&) { return in; },
                                                 std::vector<ParamSpec>{{"weight", &alone, {Init::Kind::normal, 0.0, 1.0}}})}}},
                                {});
    whole.initialise(0, 3);
    const at::Tensor master = engine.master_weights(0)[0];
    EXPECT_TRUE(at::equal(master.narrow(0, 0, 100), whole.flat(0).weights.narrow(0, 0, 100)));
    EXPECT_EQ(master.scalar_type(), at::kFloat);
    EXPECT_FALSE(model.flat(0).master.defined()) << "offloaded again";
    // Rank 1 has nothing to evaluate, but gathers for rank 0.
    const bool has_some = shards.rank() == 0;
    const EvaluationResult result = engine.evaluate({.first = has_some ? 0 : 1, .count = has_some ? 1 : 0}, [has_some] {
      EXPECT_TRUE(has_some);
      return MicroBatch{{at::ones({1, 100})}, at::zeros({1})};
    });
    const double expected = whole.flat(0).weights.to(at::kBFloat16).to(at::kFloat).sum().item<double>();
    EXPECT_NEAR(result.loss, expected, 1e-4);
    EXPECT_EQ(result.count, 1);
  });
}

}  // namespace
}  // namespace weft
