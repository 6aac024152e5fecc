// The engine alone: hand-made lists on tiny blocks that record their calls.
#include "weft/engine/engine.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <limits>
#include <ostream>

#include "tests/engine/lists.h"
#include "tests/engine/recorder.h"
#include "tests/nn/bound_layer.h"
#include "weft/base/error.h"
#include "weft/engine/failed_step.h"
#include "weft/engine/finding.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft {
namespace {

using Log = std::vector<std::string>;

TEST(Engine, FollowsTheListAndNothingElse) {
  Log log;
  FlatModel model(logged_model(log, 2), {});
  LoggedUpdater updater(log);
  const InstructionList list = {load(0),        load(1),       forward(0, 0), forward(0, 1),  forward(1, 1),  loss(1),
                                backward(1, 1), forward(1, 0), loss(0),       backward(0, 1), backward(1, 0), backward(0, 0),
                                reduce_loss(),  norm(2),       update(1),     update(0)};
  const Program program = with_list(list, 2, 2);
  Engine engine(model, program, 0, updater, local(2));
  const Log one_step = {"F0 of 1", "F0 of 2", "F1 of 2", "loss",    "B1 of 2", "F1 of 1", "loss",
                        "B0 of 2", "B1 of 1", "B0 of 1", "squares", "norm",    "U1",      "U0"};
  for (int64_t step = 0; step < 2; ++step) {
    log.clear();
    engine.step(step, counted());
    EXPECT_EQ(log, one_step) << "step " << step;
  }
}

TEST(Engine, RefusesToLoadOutOfOrder) {
  Log log;
  FlatModel model(logged_model(log, 1), {});
  LoggedUpdater updater(log);
  const Program program = with_list({load(1), load(0), forward(0, 0)}, 1, 2);
  Engine engine(model, program, 0, updater, local(2));
  for (int64_t step = 0; step < 2; ++step) {
    try {
      engine.step(step, counted());
      ADD_FAILURE() << "runs";
    } catch (const Error& error) {
      const std::string says = "the program loads micro-batch 1 but the loader hands out micro-batch 0";
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }
  EXPECT_TRUE(log.empty());
}

TEST(Engine, WaitsWhereTheListSaysAndOnlyThere) {
  Log log;
  FlatModel model(logged_model(log, 2), {});
  LoggedUpdater updater(log);
  const InstructionList list = {load(0),      forward(0, 0),  forward(1, 0), loss(0),           reduce_loss(), backward(1, 0),
                                reduce(1, 2), backward(0, 0), reduce(0, 1),  update(1, {4, 6}), update(0, {8})};
  const Program program = with_list(list, 2, 1);
  const Group data(std::make_shared<LoggedBackend>(log));
  Engine engine(model, program, 0, updater, {.groups = {{kDataAxes, data}}, .all_micro_batches = 1});
  engine.step(0, counted());
  EXPECT_EQ(log, (Log{"F0 of 1", "F1 of 1", "loss", "start losses", "B1 of 1", "start gradients of b1", "B0 of 1",
                      "start gradients of b0", "wait losses", "wait gradients of b1", "U1", "wait gradients of b0", "U0"}));
}

/// tree(lo, hi) = tree(lo, mid) + tree(mid, hi), leaves summed one after another.
at::Tensor tree_sum(const std::vector<at::Tensor>& terms, size_t slots) {
  if (slots == 1) {
    at::Tensor sum = terms[0].clone();
    for (size_t i = 1; i < terms.size(); ++i) sum.add_(terms[i]);
    return sum;
  }
  const auto middle = terms.begin() + static_cast<std::ptrdiff_t>(terms.size() / 2);
  return tree_sum({terms.begin(), middle}, slots / 2).add(tree_sum({middle, terms.end()}, slots / 2));
}

class SlotsTest : public ::testing::TestWithParam<int> {};

TEST_P(SlotsTest, AreSummedInTheFixedTreeBitForBit) {
  const int slots = GetParam(), micro_batches = 16;
  std::vector<at::Tensor> samples;
  for (int i = 0; i < micro_batches; ++i) samples.push_back(at::randn({1, 64}, at::detail::createCPUGenerator(40 + i)));
  Parameter weight{at::ones({64}), {}};
  FlatModel model(weighted_sum(weight), {});
  IdleUpdater updater;
  const Program program = plain_program(1, micro_batches, slots);
  Engine engine(model, program, 0, updater, local(micro_batches));
  const at::Tensor expected = tree_sum(samples, static_cast<size_t>(slots)).div(micro_batches).reshape({64});
  for (int64_t step = 0; step < 2; ++step) {  // partial sums of the previous step must not matter
    size_t next = 0;
    engine.step(step, [&] { return MicroBatch{{samples[next++]}, at::zeros({1})}; });
    EXPECT_TRUE(at::equal(model.flat(0).gradients, expected)) << "step " << step;
  }
  // Otherwise the test would not see the order.
  EXPECT_EQ(at::equal(expected, tree_sum(samples, 1).div(micro_batches).reshape({64})), slots == 1);
}

INSTANTIATE_TEST_SUITE_P(Slots, SlotsTest, ::testing::Values(1, 2, 4, 8, 16));

struct NotFiniteCase {
  int bad_block;  ///< -1: the loss alone
  int bad_micro;
  const char* says;
};

void PrintTo(const NotFiniteCase& c, std::ostream* out) { *out << c.says; }

class NotFiniteTest : public ::testing::TestWithParam<NotFiniteCase> {};

TEST_P(NotFiniteTest, IsReportedWithStepMicroBatchAndBlockAndNothingIsUpdated) {
  const NotFiniteCase& c = GetParam();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Model chain{.name = "test", .blocks = {}, .loss = {}, .hits = {}};
  for (int b = 0; b < 3; ++b) {
    const auto run = [b, nan, c](const Tensors& in, const Context& context) -> Tensors {
      const int64_t bad_sample = 7 * 4 + 2 + c.bad_micro;  // of its step and rank
      return {in[0].mul(b == c.bad_block && context.first_sample == bad_sample ? nan : 1.0)};
    };
    chain.blocks.push_back({"b" + std::to_string(b), "", std::make_shared<FunctionBlock>(run, std::vector<ParamSpec>{})});
  }
  chain.loss = [nan, c, micro = 0](const Tensors& out, const at::Tensor& target) mutable {
    const bool bad = c.bad_block < 0 && micro++ % 2 == c.bad_micro;
    return LossValue{out[0].sum().mul(bad ? nan : 1.0), target.numel()};
  };
  FlatModel model(std::move(chain), {});
  Log log;
  LoggedUpdater updater(log);
  const Program program = plain_program(3, 2);
  EngineOptions options = local(2);
  options.first_micro_batch = 2;
  options.all_micro_batches = 4;
  Engine engine(model, program, 0, updater, options);
  const auto next = [] { return MicroBatch{{at::ones({1, 2})}, at::zeros({1})}; };
  EXPECT_THROW(engine.step(7, next), FailedStep);
  try {
    engine.repeat(7, next);
    FAIL() << "a loss that is not finite passed";
  } catch (const BadStep& error) {
    EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
  }
  for (const std::string& line : log) EXPECT_NE(line[0], 'U') << line;
}

INSTANTIATE_TEST_SUITE_P(
    Where, NotFiniteTest,
    ::testing::Values(NotFiniteCase{0, 0,
                                    "step 8, micro-batch 2: the loss is nan; first not finite: block b0, forward of "
                                    "micro-batch 2: aten::mul by nan of self [1, 2] float32 (least 1, greatest 1) made NaN, in "
                                    "the sample at position 30 of the run, at [0, 0]"},
                      NotFiniteCase{2, 0, "first not finite: block b2, forward of micro-batch 2: aten::mul by nan"},
                      NotFiniteCase{1, 1,
                                    "step 8, micro-batch 3: the loss is nan; first not finite: block b1, forward of "
                                    "micro-batch 3: aten::mul by nan"},
                      NotFiniteCase{-1, 1,
                                    "step 8, micro-batch 3: the loss is nan; first not finite: the loss of micro-batch 3: "
                                    "aten::mul by nan"}));

TEST(Engine, LeavesNothingOfAFailedStepBehind) {
  Parameter weight{at::ones({2}), {}};
  FlatModel model(weighted_sum(weight), {});
  IdleUpdater updater;
  const Program program = plain_program(1, 2);
  Engine engine(model, program, 0, updater, local(2));
  const auto feed = [&](double second) {
    engine.step(0, [&, micro = 0]() mutable {
      return MicroBatch{{at::full({1, 2}, micro++ == 0 ? 1.0 : second)}, at::zeros({1})};
    });
  };
  EXPECT_THROW(feed(std::numeric_limits<double>::infinity()), NumericError);
  feed(3.0);
  EXPECT_TRUE(weight.value.grad().eq(2.0).all().item<bool>()) << weight.value.grad();
}

TEST(Engine, UnusedParametersAndOutputsGetZeroGradients) {
  Parameter used{at::ones({2}), {}}, unused{at::ones({2}), {}}, behind{at::ones({2}), {}};
  Model chain{.name = "test", .blocks = {}, .loss = sum_loss, .hits = {}};
  chain.blocks.push_back({"a", "a",
                          std::make_shared<FunctionBlock>(
                              [&](const Tensors& in, const Context&) -> Tensors {
                                return {in[0].mul(used.value), in[0].mul(behind.value)};
                              },
                              std::vector<ParamSpec>{{"used", &used, {}}, {"unused", &unused, {}}, {"behind", &behind, {}}})});
  chain.blocks.push_back({"b", "b",
                          std::make_shared<FunctionBlock>(
                              [](const Tensors& in, const Context&) -> Tensors {
                                return {in[0].mul(2.0)};  // in[1] is not read
                              },
                              std::vector<ParamSpec>{})});
  FlatModel model(std::move(chain), {});
  model.flat(0).gradients.fill_(99.0);
  IdleUpdater updater;
  const Program program = plain_program(2, 2);
  Engine engine(model, program, 0, updater, local(2));
  engine.step(0, [] { return MicroBatch{{at::ones({1, 2})}, at::zeros({1})}; });
  EXPECT_TRUE(used.gradient.eq(2.0).all().item<bool>());
  EXPECT_TRUE(unused.gradient.eq(0.0).all().item<bool>());
  EXPECT_TRUE(behind.gradient.eq(0.0).all().item<bool>());
}

TEST(Engine, HandsSeveralTensorsFromBlockToBlock) {
  Parameter first{at::randn({3}), {}}, second{at::randn({3}), {}};
  // (x, ids) -> (x w, ids, x) -> (x w, (x w)[ids] v, x): one passed on as it is, one of ids, one used twice.
  const auto one = [](const Tensors& in, const at::Tensor& w) -> Tensors { return {in[0].mul(w), in[1], in[0]}; };
  const auto two = [](const Tensors& in, const at::Tensor& v) -> Tensors {
    return {in[0], in[0].index_select(1, in[1]).mul(v), in[2]};
  };
  const auto three = [](const Tensors& in) -> Tensors { return {in[0].mul(in[1]).add(in[2].square())}; };
  Model chain{.name = "test", .blocks = {}, .loss = sum_loss, .hits = {}};
  const auto add = [&](const char* name, FunctionBlock::Forward run, std::vector<ParamSpec> specs) {
    chain.blocks.push_back({name, name, std::make_shared<FunctionBlock>(std::move(run), std::move(specs))});
  };
  add("a", [&](const Tensors& in, const Context&) { return one(in, first.value); }, {{"w", &first, {}}});
  add("b", [&](const Tensors& in, const Context&) { return two(in, second.value); }, {{"v", &second, {}}});
  add("c", [&](const Tensors& in, const Context&) { return three(in); }, {});

  const at::Tensor x = at::randn({4, 3}), ids = at::arange(2, -1, -1, at::kLong);
  const at::Tensor w = first.value.clone().requires_grad_(true), v = second.value.clone().requires_grad_(true);
  const at::Tensor expected = three(two(one({x, ids}, w), v))[0].sum();
  expected.div(4.0).backward();

  FlatModel model(std::move(chain), {});
  IdleUpdater updater;
  const Program program = plain_program(3, 1);
  Engine engine(model, program, 0, updater, local(1));
  const StepResult result = engine.step(0, [&] { return MicroBatch{{x, ids}, at::zeros({4})}; });
  EXPECT_NEAR(result.loss, expected.item<double>() / 4.0, 1e-5);
  EXPECT_TRUE(at::allclose(first.value.grad(), w.grad()));
  EXPECT_TRUE(at::allclose(second.value.grad(), v.grad()));
}

TEST(Engine, DividesByTheTargetsThatCounted) {
  Parameter bias{at::zeros({3}), {}};
  Model model_of_bias{.name = "bias", .blocks = {}, .loss = cross_entropy, .hits = count_hits};
  model_of_bias.blocks.push_back(
      {"bias", "bias",
       std::make_shared<FunctionBlock>([&](const Tensors& in, const Context&) -> Tensors { return {in[0].add(bias.value)}; },
                                       std::vector<ParamSpec>{{"bias", &bias, {}}})});
  FlatModel model(std::move(model_of_bias), {});
  IdleUpdater updater;
  const Program program = plain_program(1, 2);
  Engine engine(model, program, 0, updater, local(2));
  const at::Tensor logits = at::randn({8, 3});
  at::Tensor target = at::arange(8, at::kLong).remainder(3);
  target.narrow(0, 1, 4).fill_(-100);  // 3 left in the first half bar one, 1 in the second
  const auto feed = [&] {
    return engine.step(0, [&, begin = 0]() mutable {
      const MicroBatch micro{{logits.narrow(0, begin, 4)}, target.narrow(0, begin, 4)};
      begin += 4;
      return micro;
    });
  };
  const StepResult result = feed();

  const at::Tensor b = at::zeros({3}).requires_grad_(true);
  const at::Tensor mean = cross_entropy({logits.add(b)}, target).sum.div(4.0);
  mean.backward();
  EXPECT_EQ(result.count, 4);
  EXPECT_NEAR(result.loss, mean.item<double>(), 1e-6);
  EXPECT_DOUBLE_EQ(updater.divisor, 4.0 / 8.0);
  EXPECT_TRUE(at::allclose(bias.value.grad().div(updater.divisor), b.grad()));

  target.fill_(-100);
  EXPECT_THROW(feed(), InputError);
}

/// A run's first micro-batch sets the scale of its gradients, but not their values once divided.
TEST(Engine, CountsEveryTargetTheSameWhateverTheFirstMicroBatch) {
  const auto feed = [](Engine& engine, int64_t step, std::vector<int64_t> targets) {
    engine.step(step, [&, j = 0]() mutable {
      const int64_t seed = 10 * step + j;
      return MicroBatch{{at::randn({1, 64}, at::detail::createCPUGenerator(seed))}, at::zeros({1, targets[j++]})};
    });
  };
  const Program program = plain_program(1, 3);
  std::vector<at::Tensor> gradients;
  std::vector<double> divisors;
  for (const int64_t first : {1, 5, 40}) {
    Parameter weight{at::ones({64}), {}};
    FlatModel model(weighted_sum(weight), {});
    IdleUpdater updater;
    Engine engine(model, program, 0, updater, local(3));
    feed(engine, 0, {first, 2, 3});
    feed(engine, 1, {4, 1, 9});
    gradients.push_back(model.flat(0).gradients.div(updater.divisor));
    divisors.push_back(updater.divisor);
  }
  at::Tensor expected = at::zeros({64});
  for (int j = 0; j < 3; ++j) expected.add_(at::randn({64}, at::detail::createCPUGenerator(10 + j)));
  EXPECT_TRUE(at::allclose(gradients[0], expected.div(4 + 1 + 9), 1e-5, 1e-7));
  EXPECT_EQ(divisors, (std::vector{14.0 / 3, 14.0 / (3 * 8), 14.0 / (3 * 64)}));
  for (const at::Tensor& other : gradients) EXPECT_TRUE(at::equal(other, gradients[0]));
}

TEST(Engine, MovesStatisticsByTheMeanChangeOfTheMicroBatches) {
  auto layer = std::make_shared<BatchNorm2d>(2);
  std::vector<ParamSpec> specs;
  layer->describe(specs, "bn");
  Model chain{.name = "test", .blocks = {}, .loss = sum_loss, .hits = {}};
  chain.blocks.push_back(
      {"bn", "bn",
       std::make_shared<FunctionBlock>(
           [layer](const Tensors& in, const Context& context) -> Tensors { return {(*layer)(in[0], context)}; }, specs)});
  FlatModel model(std::move(chain), {});
  model.initialise(0, /*seed=*/1);
  IdleUpdater updater;
  const Program program = plain_program(1, 3);
  Engine engine(model, program, 0, updater, local(3));
  at::Tensor mean = at::zeros({2}), variance = at::ones({2});
  for (int64_t step = 0; step < 2; ++step) {
    const at::Tensor x = at::randn({3, 5, 2, 4, 4});  // [micro-batches, samples, channels, height, width]
    engine.step(step, [&, j = 0]() mutable { return MicroBatch{{x[j++]}, at::zeros({5})}; });
    mean = mean.mul(0.9).add(x.mean(at::IntArrayRef{1, 3, 4}).mean(0), 0.1);
    variance = variance.mul(0.9).add(x.var(at::IntArrayRef{1, 3, 4}, /*unbiased=*/true).mean(0), 0.1);
  }
  EXPECT_TRUE(at::allclose(layer->running_mean.value, mean, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(layer->running_var.value, variance, 1e-5, 1e-6));
}

TEST(Engine, EvaluatesUnevenMicroBatchesWithoutTraining) {
  bool training = true, graph = true;
  Model chain{.name = "test", .blocks = {}, .loss = cross_entropy, .hits = count_hits};
  chain.blocks.push_back({"a", "a",
                          std::make_shared<FunctionBlock>(
                              [&](const Tensors& in, const Context& context) -> Tensors {
                                training = context.training;
                                graph = c10::GradMode::is_enabled();
                                return {in[0]};
                              },
                              std::vector<ParamSpec>{})});
  FlatModel model(std::move(chain), {});
  IdleUpdater updater;
  const Program program = plain_program(1, 1);
  Engine engine(model, program, 0, updater, local(1));
  const at::Tensor logits = at::randn({7, 3});
  at::Tensor target = logits.argmax(1);
  target[2] = (target[2].item<int64_t>() + 1) % 3;
  target[5] = -100;
  int64_t begin = 0;
  const EvaluationResult result = engine.evaluate({.count = 3}, [&] {
    const int64_t count = std::min<int64_t>(3, 7 - begin);
    const MicroBatch micro{{logits.narrow(0, begin, count)}, target.narrow(0, begin, count)};
    begin += count;
    return micro;
  });
  EXPECT_EQ(begin, 7);
  EXPECT_EQ(result.count, 6);
  EXPECT_EQ(result.hits, 5);
  EXPECT_NEAR(result.loss, cross_entropy({logits}, target).sum.item<double>() / 6.0, 1e-6);
  EXPECT_FALSE(training);
  EXPECT_FALSE(graph);
}

}  // namespace
}  // namespace weft
