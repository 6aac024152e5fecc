// A value that is not finite, followed to its cause on any layout: rank, block, operation, sample; and steps that are checked.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/nn/bound_layer.h"
#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"
#include "weft/engine/finding.h"
#include "weft/engine/step_checks.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::bad_step_test {
namespace {

using torch::nn::Linear;

constexpr int64_t kSamples = 16, kWidth = 4, kBadSample = 13;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class Fault { log, backward, own_kernel, sample, weight, none };

struct Layout {
  const char* name;
  std::vector<AxisSize> axes;
  LayoutOptions options = {};
  int rank_of_first = 0;  ///< of the sample, at the fault's block
};

/// Rows that are zero but for the bad sample's.
at::Tensor mark_of(const at::Tensor& like, const Context& context) {
  const at::Tensor mark = at::zeros({like.size(0), 1}, like.options().requires_grad(false));
  const int64_t row = kBadSample - context.first_sample % kSamples;
  if (row >= 0 && row < like.size(0)) mark[row].fill_(1.0);
  return mark;
}

Tensors faulty(Fault fault, const at::Tensor& in, const Context& context) {
  const at::Tensor mark = mark_of(in, context);
  if (fault == Fault::log) return {in + (1.0 - 2.0 * mark).log()};
  if (fault == Fault::backward) return {in + (in * 0.0 + 1.0 - mark).sqrt()};
  if (fault == Fault::own_kernel) {  // no operator of LibTorch's
    const at::Tensor out = in.detach().clone();
    for (int64_t row = 0; row < mark.size(0); ++row) {
      if (mark.data_ptr<float>()[row] > 0) out.data_ptr<float>()[row * kWidth] = kInfinity;
    }
    return {in * 0.0 + out};
  }
  return {in * 1.0};
}

Model model_of(Fault fault) {
  Model model{.name = "net", .blocks = {}, .loss = {}, .hits = {}};
  const auto linear = [&](const std::string& name, bool is_bad) {
    const Linear layer(kWidth, kWidth);
    const c10::NoGradGuard no_grad;
    layer->weight.copy_(at::arange(kWidth * kWidth, at::kFloat).view({kWidth, kWidth}).sin() * 0.3);
    layer->bias.zero_();
    if (is_bad) layer->weight[1][2] = kInfinity;
    const auto run = [layer](const Tensors& in) -> Tensors { return {layer.ptr()->forward(in.front())}; };
    model.blocks.push_back({name, name, module_block(name, layer.ptr(), run)});
  };
  linear("first", false);
  const auto run = [fault](const Tensors& in, const Context& context) { return faulty(fault, in.front(), context); };
  model.blocks.push_back({"fault", "", std::make_shared<FunctionBlock>(run, std::vector<ParamSpec>{})});
  linear("third", fault == Fault::weight);
  linear("last", false);
  model.loss = [](const Tensors& out, const at::Tensor& target) -> LossValue {
    return {(out.front() - target).square().sum(), target.numel()};
  };
  return model;
}

/// This rank's share of the step; `is_bad`: with a sample that is not finite.
Batch batch_of(const Mesh& mesh, bool is_bad) {
  at::Tensor all = at::arange(kSamples * kWidth, at::kFloat).view({kSamples, kWidth}).cos();
  if (is_bad) all[kBadSample][2] = -kInfinity;
  const int64_t ranks = mesh.size("dp") * mesh.size("shard"), share = kSamples / ranks;
  const int64_t index = mesh.join({"dp", "shard"}).index;
  return {.inputs = {all.narrow(0, index * share, share)}, .target = at::ones({share, kWidth})};
}

TrainerOptions options_of(const Layout& layout) {
  return {.global_batch = kSamples, .micro_batch = 2, .layout = layout.options, .sample_name = [](int64_t position) {
            return "sample " + std::to_string(100 + position);
          }};
}

/// The error of the step, which must fail; null after a failure of the test.
std::unique_ptr<BadStep> failed_step(Trainer& trainer, const Batch& batch) {
  try {
    trainer.step(batch);
    ADD_FAILURE() << "the step passed";
  } catch (const BadStep& error) {
    return std::make_unique<BadStep>(error);
  }
  return nullptr;
}

class FoundFault : public testing::TestWithParam<Layout> {
 protected:
  /// Each rank's error; they are the same.
  static BadStep error_of(const Layout& layout, Fault fault) {
    int size = 1;
    for (const AxisSize& axis : layout.axes) size *= axis.size;
    std::mutex mutex;
    std::vector<BadStep> errors;
    test::run_ranks(size, [&](const World& world) {
      const Mesh mesh(world, layout.axes);
      Trainer trainer(mesh, model_of(fault), AdamW{.lr = 1e-3}, options_of(layout));
      try {
        trainer.step(batch_of(mesh, fault == Fault::sample));
      } catch (const BadStep& error) {
        const std::lock_guard lock(mutex);
        errors.push_back(error);
      }
    });
    EXPECT_EQ(errors.size(), static_cast<size_t>(size)) << "all ranks fail alike";
    for (const BadStep& error : errors) EXPECT_STREQ(error.what(), errors.front().what());
    return errors.empty() ? BadStep(0, "nothing was thrown", {Finding()}) : errors.front();
  }
};

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

TEST_P(FoundFault, IsNamedByRankBlockOperationAndSample) {
  const struct {
    Fault fault;
    Finding::Kind kind;
    const char *pass, *block, *operation, *made;
    bool has_sample = true;
  } table[] = {
      {Fault::log, Finding::Kind::operation, "forward", "fault", "aten::log", "NaN"},
      {Fault::backward, Finding::Kind::operation, "backward", "fault", "aten::div in SqrtBackward0", "-inf"},
      {Fault::own_kernel, Finding::Kind::unseen, "forward", "fault", "", "inf"},
      {Fault::sample, Finding::Kind::data, "forward", "first", "", "-inf"},
      {Fault::weight, Finding::Kind::weight, "forward", "third", "", "inf", false},
  };
  const Layout& layout = GetParam();
  for (const auto& row : table) {
    SCOPED_TRACE(row.operation + std::string(row.block));
    const BadStep error = error_of(layout, row.fault);
    ASSERT_NE(error.finding(), nullptr) << error.what();
    const Finding& found = *error.finding();
    EXPECT_EQ(found.kind, row.kind) << error.what();
    EXPECT_EQ(found.pass, row.pass) << error.what();
    EXPECT_EQ(found.block, row.block) << error.what();
    EXPECT_EQ(found.made, row.made) << error.what();
    if (row.kind == Finding::Kind::operation) {
      EXPECT_EQ(found.operation, row.operation) << error.what();
    }
    if (!row.has_sample) continue;
    EXPECT_EQ(found.micro_batch, kBadSample / 2) << error.what();
    EXPECT_EQ(found.sample, kBadSample) << error.what();
    EXPECT_EQ(found.sample_name, "sample 113") << error.what();
    EXPECT_EQ(found.rank, row.fault == Fault::sample && layout.axes[0].name == "pp" ? 0 : layout.rank_of_first) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, FoundFault,
    testing::Values(Layout{"one", {{"dp", 1}}, {}, 0}, Layout{"dp", {{"dp", 2}}, {}, 1},
                    Layout{"zero_3", {{"shard", 4}}, {.shard_level = ShardLevel::parameters}, 3},
                    Layout{"hybrid", {{"dp", 2}, {"shard", 2}}, {.shard_level = ShardLevel::parameters}, 3},
                    Layout{"pp", {{"pp", 2}}, {}, 0}, Layout{"recompute", {{"dp", 2}}, {.recompute_every = 2}, 1}),
    [](const auto& info) { return std::string(info.param.name); });

/// A mask's infinities are no cause; the NaN of a row that is masked whole is the softmax's.
TEST(FoundCause, IsNotAMask) {
  for (const bool is_whole : {false, true}) {
    Model model = model_of(Fault::none);
    const auto run = [is_whole](const Tensors& in, const Context& context) -> Tensors {
      at::Tensor mask = at::zeros({in.front().size(0), kWidth}, at::kBool);
      mask.select(1, 0).fill_(true);
      if (is_whole) mask.logical_or_(mark_of(in.front(), context).to(at::kBool));
      const at::Tensor x = in.front().masked_fill(mask, -kInfinity).softmax(1);
      return {is_whole ? x : x + mark_of(in.front(), context).neg().log1p()};
    };
    model.blocks[1] = {"fault", "", std::make_shared<FunctionBlock>(run, std::vector<ParamSpec>{})};
    const Mesh mesh(World(), {{"dp", 1}});
    Trainer trainer(mesh, model, AdamW{.lr = 1e-3}, options_of({}));
    const std::unique_ptr<BadStep> error = failed_step(trainer, batch_of(mesh, false));
    ASSERT_TRUE(error);
    ASSERT_NE(error->finding(), nullptr);
    EXPECT_EQ(error->finding()->operation, is_whole ? "aten::_softmax" : "aten::log1p") << error->what();
    EXPECT_EQ(error->finding()->sample, kBadSample) << error->what();
  }
}

TEST(FoundCause, IsAStatistic) {
  Model model = model_of(Fault::none);
  const torch::nn::BatchNorm1d norm(kWidth);
  const auto run = [norm](const Tensors& in) -> Tensors { return {norm.ptr()->forward(in.front())}; };
  model.blocks.insert(model.blocks.begin(), {"norm", "norm", module_block("norm", norm.ptr(), run)});
  const Mesh mesh(World(), {{"dp", 1}});
  Trainer trainer(mesh, model, AdamW{.lr = 1e-3}, options_of({}));
  Batch batch = batch_of(mesh, false);
  batch.inputs.front().narrow(0, kBadSample, 1).mul_(1e25);
  const std::unique_ptr<BadStep> error = failed_step(trainer, batch);
  ASSERT_TRUE(error);
  ASSERT_NE(error->finding(), nullptr) << error->what();
  EXPECT_EQ(error->finding()->block, "norm") << error->what();
  EXPECT_NE(error->finding()->operation.find("batch_norm"), std::string::npos) << error->what();
  EXPECT_EQ(error->finding()->micro_batch, kBadSample / 2) << error->what();
}

/// Weights that an update made infinite are named in the next step, on the ranks that own them.
TEST(FoundCause, IsAnUpdate) {
  for (const bool is_checked : {false, true}) {
    test::run_ranks(2, [&](const World& world) {
      const Mesh mesh(world, {{"shard", 2}});
      Model model = model_of(Fault::none);
      model.loss = [](const Tensors& out, const at::Tensor& target) -> LossValue {
        return {(out.front() - target).sum() * 1e4, target.numel()};
      };
      Trainer trainer(mesh, model, Sgd{.lr = 3e38, .momentum = 0.0}, options_of({}));
      if (is_checked) trainer.check(/*watches_operators=*/true);
      trainer.step(batch_of(mesh, false));
      if (is_checked) {
        const std::optional<Finding>& found = trainer.checks()->finding();
        ASSERT_TRUE(found);
        EXPECT_EQ(found->pass, "update");
        return;
      }
      const std::unique_ptr<BadStep> error = failed_step(trainer, batch_of(mesh, false));
      ASSERT_TRUE(error);
      ASSERT_NE(error->finding(), nullptr) << error->what();
      EXPECT_EQ(error->finding()->kind, Finding::Kind::weight) << error->what();
      EXPECT_EQ(error->finding()->block, "last") << error->what();
      EXPECT_TRUE(std::string(error->what()).starts_with("step 2: ") || std::string(error->what()).starts_with("step 2,"))
          << error->what();
    });
  }
}

/// What differs from run to run is told, too.
TEST(FoundCause, MayBeGoneWhenTheStepIsRepeated) {
  Model model = model_of(Fault::none);
  const auto run = [calls = 0](const Tensors& in, const Context&) mutable -> Tensors {
    return {calls++ == 3 ? in.front() / 0.0 : in.front() * 1.0};
  };
  model.blocks[1] = {"fault", "", std::make_shared<FunctionBlock>(run, std::vector<ParamSpec>{})};
  const Mesh mesh(World(), {{"dp", 1}});
  Trainer trainer(mesh, model, AdamW{.lr = 1e-3}, options_of({}));
  const std::unique_ptr<BadStep> error = failed_step(trainer, batch_of(mesh, false));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->finding(), nullptr);
  EXPECT_NE(std::string(error->what()).find("differ from run to run"), std::string::npos) << error->what();
}

/// The state that a step which failed leaves is that before it, and is saved from TrainerOptions::on_bad_step.
TEST(FoundCause, IsToldWhileTheTrainerIsWhole) {
  TrainerOptions options = options_of({});
  Trainer* made = nullptr;
  int64_t steps_done = -1, micro_batches = 0;
  options.on_bad_step = [&](const BadStep& bad, const std::vector<Batch>& taken) {
    EXPECT_EQ(bad.step(), 1);
    steps_done = made->steps_done();
    micro_batches = static_cast<int64_t>(taken.size());
    made->for_each_weight(
        [](const std::string&, const at::Tensor& value) { EXPECT_TRUE(value.isfinite().all().item<bool>()); });
    return std::string("more is kept");
  };
  const Mesh mesh(World(), {{"dp", 1}});
  Trainer trainer(mesh, model_of(Fault::none), AdamW{.lr = 1e-3}, options);
  made = &trainer;
  trainer.step(batch_of(mesh, false));
  const std::unique_ptr<BadStep> error = failed_step(trainer, batch_of(mesh, true));
  ASSERT_TRUE(error);
  EXPECT_TRUE(std::string(error->what()).ends_with("; more is kept")) << error->what();
  EXPECT_EQ(steps_done, 1);
  EXPECT_EQ(micro_batches, kSamples / 2);
}

class CheckedSteps : public testing::TestWithParam<Layout> {};

/// Checks change no bits, and their ranges are those of the blocks.
TEST_P(CheckedSteps, HaveTheSameBits) {
  const Layout& layout = GetParam();
  int size = 1;
  for (const AxisSize& axis : layout.axes) size *= axis.size;
  std::mutex mutex;
  std::set<std::pair<double, double>> results[3];
  for (const bool is_checked : {false, true}) {
    test::run_ranks(size, [&](const World& world) {
      const Mesh mesh(world, layout.axes);
      Trainer trainer(mesh, model_of(Fault::none), AdamW{.lr = 1e-3}, options_of(layout));
      if (is_checked) trainer.check(/*watches_operators=*/true);
      for (auto& result : results) {
        const StepResult step = trainer.step(batch_of(mesh, false));
        const std::lock_guard lock(mutex);
        result.emplace(step.loss, step.norm);
        if (!is_checked) continue;
        EXPECT_FALSE(trainer.checks()->finding());
        EXPECT_FALSE(trainer.checks()->ranges().empty());
        for (const BlockRange& range : trainer.checks()->ranges()) {
          EXPECT_LE(range.least, range.greatest);
          EXPECT_EQ(range.not_finite, 0);
          EXPECT_GT(range.numel, 0);
        }
      }
    });
  }
  for (const auto& result : results) EXPECT_EQ(result.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Layouts, CheckedSteps,
                         testing::Values(Layout{"one", {{"dp", 1}}},
                                         Layout{"zero_3", {{"shard", 2}}, {.shard_level = ShardLevel::parameters}},
                                         Layout{"pp", {{"pp", 2}}}, Layout{"recompute", {{"dp", 2}}, {.recompute_every = 2}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::bad_step_test
