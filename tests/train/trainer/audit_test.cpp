// Audits of a trainer: one flipped bit is found, in the right parameter on the right rank; without one nothing is reported, and
// no bit of training changes.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/nn/modules/module_block.h"
#include "weft/optim/element_wise_update.h"
#include "weft/train/trainer/trainer.h"

namespace weft::audit_test {
namespace {

constexpr int kEvery = 3, kFlippedAfter = 4, kFoundAt = 6, kSteps = 7;

void flip(const at::Tensor& memory, int64_t element, int bit = 3) {
  auto* bytes = static_cast<unsigned char*>(memory.mutable_data_ptr());
  bytes[element * static_cast<int64_t>(memory.element_size()) + bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
}

/// SGD with momentum, which keeps hold of its state.
class HeldMomentum : public ElementWiseUpdate {
 public:
  std::string name() const override { return "held momentum"; }
  std::vector<std::string> state_names() const override { return {"momentum"}; }
  void update(const ElementRange& range) const override {
    held_ = range.state[0];
    range.state[0].mul_(0.9).add_(range.gradients);
    range.weights.sub_(range.state[0], range.lr);
  }
  const at::Tensor& held() const { return held_; }

 private:
  mutable at::Tensor held_;
};

enum class What { weights, optimizer, whole, statistic, buffer };
/// When the bit flips: between steps, or while the audited step runs.
enum class When { between, within };

struct Case {
  const char* name;
  std::vector<AxisSize> mesh;
  LayoutOptions layout = {};
  const char* job = "mlp";
  What what = What::weights;
  When when = When::between;
  int rank = 1;                  ///< on which the bit flips
  std::string parameter = {};    ///< its name, or a part; empty: the last that the rank has
  std::vector<int> named = {1};  ///< ranks that the audit must name
  bool is_sure = true;
  std::string tensor = "model/";  ///< what the finding's tensor begins with
  bool custom = false;            ///< HeldMomentum instead of SGD
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Torch's BatchNorm counts its batches in a buffer.
Model counted() {
  torch::nn::Sequential net(torch::nn::Linear(6, 10), torch::nn::BatchNorm1d(10), torch::nn::Linear(10, 3));
  const c10::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(5);
  for (at::Tensor& parameter : net->parameters()) parameter.copy_(at::randn(parameter.sizes(), generator, at::kFloat).mul(0.3));
  return sequential_model("counted", net);
}

const Job& job_of(const Case& c) {
  static const Job own = {
      "counted", counted, [](int64_t step) {
        at::Generator g = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 1);
        return Batch{{at::randn({kGlobalBatch, 6}, g, at::kFloat)}, at::randint(3, {kGlobalBatch}, g, at::kLong)};
      }};
  return std::string(c.job) == "counted" ? own : job(c.job);
}

class Flipped {
 public:
  Flipped(const Case& c, Trainer& trainer, const HeldMomentum* momentum) : case_(c), trainer_(trainer), momentum_(momentum) {}

  /// Flips the bit; returns the name of what has it.
  std::string operator()() const {
    FlatModel& model = trainer_.model();
    if (case_.what == What::optimizer) {
      flip(momentum_->held(), 1);
      return "";
    }
    if (case_.what == What::buffer) {
      for (const ModelBuffer& buffer : model.buffers()) {
        if (!buffer.counts) continue;
        flip(buffer.value, 0);
        return buffer.name;
      }
    }
    std::string name;
    const bool wants_statistic = case_.what == What::statistic;
    at::Tensor memory;
    int64_t element = 0;
    for (const Param& param : model.params()) {
      if (!model.holds(param.block) || wants_statistic != (param.group == ParamGroup::statistic)) continue;
      if (!case_.parameter.empty() && param.name.find(case_.parameter) == std::string::npos) continue;
      const FlatBlock& flat = model.flat(param.block);
      const bool is_whole = case_.what == What::whole;
      const GroupRange own = flat.own({.begin = param.offset, .end = param.offset + param.numel});
      if (!is_whole && own.begin >= own.end) continue;
      memory = is_whole ? flat.weights : flat.master;
      element = is_whole ? param.offset : own.begin;
      name = param.name;
    }
    flip(memory, element);
    return name;
  }

 private:
  const Case& case_;
  Trainer& trainer_;
  const HeldMomentum* momentum_;
};

class Audits : public testing::TestWithParam<Case> {};

TEST_P(Audits, FindTheBitTheParameterAndTheRank) {
  const Case& c = GetParam();
  const Job& job = job_of(c);
  int ranks = 1;
  for (const AxisSize& axis : c.mesh) ranks *= axis.size;
  std::vector<std::vector<AuditReport>> reports(ranks);
  std::string flipped;
  test::run_ranks(ranks, [&](World world) {
    const Mesh mesh(world, c.mesh);
    const Axis data = mesh.join({"dp", "shard"});
    const auto momentum = std::make_shared<HeldMomentum>();
    const OptimizerOptions optimizer = c.custom ? OptimizerOptions(CustomOptimizer{.lr = 0.01, .update = momentum})
                                                : OptimizerOptions(Sgd{.lr = 0.01, .momentum = 0.9});
    const int64_t share = job.global_batch / data.size();
    Trainer trainer(mesh, job.model(), optimizer,
                    {.global_batch = job.global_batch, .micro_batch = share, .layout = c.layout, .audit_every = kEvery});
    const Flipped flip_bit(c, trainer, momentum.get());
    const bool mine = world.rank() == c.rank;
    for (int step = 1; step <= kSteps; ++step) {
      const Batch batch = slice(job.batch_of(step), data.index * share, share);
      const bool within = mine && c.when == When::within && step == kFoundAt;
      trainer.step([&] {
        if (within) flipped = flip_bit();
        return batch;
      });
      if (mine && c.when == When::between && step == kFlippedAfter) flipped = flip_bit();
      const AuditReport* report = trainer.last_audit();
      if (report && report->step == step) reports[world.rank()].push_back(*report);
    }
  });
  for (int rank = 0; rank < ranks; ++rank) {
    ASSERT_EQ(reports[rank].size(), 2U);
    EXPECT_TRUE(reports[rank][0].findings.empty()) << reports[rank][0].findings.front().text;
    const AuditReport& report = reports[rank][1];
    EXPECT_EQ(report.step, kFoundAt);
    EXPECT_EQ(report.last_clean, kEvery);
    ASSERT_EQ(report.findings.size(), 1U) << "on rank " << rank;
    const AuditFinding& finding = report.findings.front();
    EXPECT_EQ(finding.ranks, c.named) << finding.text;
    EXPECT_EQ(finding.is_sure, c.is_sure) << finding.text;
    EXPECT_EQ(finding.kind, c.when == When::within ? AuditKind::memory : AuditKind::replicas) << finding.text;
    EXPECT_TRUE(finding.tensor.starts_with(c.tensor)) << finding.tensor;
    if (!flipped.empty()) {
      EXPECT_NE(finding.text.find("'" + (c.when == When::within ? c.tensor : "") + flipped + "'"), std::string::npos)
          << finding.text << " instead of " << flipped;
    }
  }
}

LayoutOptions sharded(ShardLevel level, Precision precision = Precision::fp32) {
  return {.shard_level = level, .precision = precision};
}

const LayoutOptions kZero1 = sharded(ShardLevel::optimizer), kZero2 = sharded(ShardLevel::gradients),
                    kZero3 = sharded(ShardLevel::parameters);

INSTANTIATE_TEST_SUITE_P(
    Copies, Audits,
    testing::Values(Case{.name = "two_replicas", .mesh = {{"dp", 2}}, .named = {0, 1}, .is_sure = false},
                    Case{.name = "four_replicas", .mesh = {{"dp", 4}}, .job = "gpt", .rank = 2, .named = {2}},
                    Case{.name = "four_replicas_optimizer",
                         .mesh = {{"dp", 4}},
                         .what = What::optimizer,
                         .rank = 3,
                         .named = {3},
                         .tensor = "m",
                         .custom = true},
                    Case{.name = "hybrid_zero3", .mesh = {{"dp", 3}, {"shard", 2}}, .layout = kZero3, .rank = 3, .named = {3}},
                    Case{.name = "hybrid_zero1",
                         .mesh = {{"dp", 2}, {"shard", 2}},
                         .layout = kZero1,
                         .rank = 3,
                         .named = {1, 3},
                         .is_sure = false},
                    Case{.name = "statistics", .mesh = {{"dp", 3}}, .job = "cnn", .what = What::statistic, .rank = 1},
                    Case{.name = "buffer",
                         .mesh = {{"dp", 3}},
                         .job = "counted",
                         .what = What::buffer,
                         .rank = 2,
                         .named = {2},
                         .tensor = "buffer/"},
                    Case{.name = "tied",
                         .mesh = {{"pp", 2}},
                         .job = "deep_tied_gpt",
                         .rank = 1,
                         .parameter = "wte",
                         .named = {0, 1},
                         .is_sure = false},
                    Case{.name = "shared_norm",
                         .mesh = {{"tp", 2}},
                         .job = "split_gpt",
                         .rank = 1,
                         .parameter = "ln",
                         .named = {0, 1},
                         .is_sure = false},
                    Case{.name = "context", .mesh = {{"cp", 2}}, .job = "gpt", .rank = 1, .named = {0, 1}, .is_sure = false}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    AtRest, Audits,
    testing::Values(Case{.name = "replica", .mesh = {{"dp", 2}}, .when = When::within, .rank = 1},
                    Case{.name = "replica_optimizer",
                         .mesh = {{"dp", 2}},
                         .what = What::optimizer,
                         .when = When::within,
                         .rank = 0,
                         .named = {0},
                         .tensor = "momentum/",
                         .custom = true},
                    Case{.name = "zero3", .mesh = {{"shard", 2}}, .layout = kZero3, .when = When::within, .rank = 1},
                    Case{.name = "zero3_bf16",
                         .mesh = {{"shard", 2}},
                         .layout = sharded(ShardLevel::parameters, Precision::bf16),
                         .when = When::within,
                         .rank = 0,
                         .named = {0}},
                    Case{.name = "zero1_optimizer",
                         .mesh = {{"shard", 2}},
                         .layout = kZero1,
                         .what = What::optimizer,
                         .when = When::within,
                         .rank = 1,
                         .tensor = "momentum/",
                         .custom = true},
                    Case{.name = "zero2_whole",
                         .mesh = {{"shard", 2}},
                         .layout = kZero2,
                         .what = What::whole,
                         .when = When::within,
                         .rank = 0,
                         .named = {0},
                         .tensor = "weights/"},
                    Case{.name = "stage", .mesh = {{"pp", 2}}, .job = "deep_gpt", .when = When::within, .rank = 1},
                    Case{.name = "split",
                         .mesh = {{"tp", 2}},
                         .job = "split_gpt",
                         .when = When::within,
                         .rank = 1,
                         .parameter = "mlp",
                         .named = {1}}),
    [](const auto& info) { return std::string(info.param.name); });

/// Audited in every step.
struct Clean {
  const char* name;
  const char* job;
  int ranks;
  Strategy strategy;
  OptimizerOptions optimizer = AdamW{.lr = 1e-3};
};

void PrintTo(const Clean& c, std::ostream* out) { *out << c.name; }

class CleanAudits : public testing::TestWithParam<Clean> {};

TEST_P(CleanAudits, FindNothingAndChangeNoBit) {
  const Clean& c = GetParam();
  Strategy audited = c.strategy;
  audited.audit_every = 1;
  const Trained with = train_ranks(job(c.job), audited, c.ranks, c.optimizer, 3);
  expect_equal(with, train_ranks(job(c.job), c.strategy, c.ranks, c.optimizer, 3), "without audits");
}

LayoutOptions offloaded() {
  LayoutOptions layout = kZero3;
  layout.offload_parameters = layout.offload_optimizer = Offload::host;
  layout.offload_activations = Offload::host;
  layout.recompute_every = 1;
  return layout;
}

LayoutOptions precise(Precision precision) { return {.precision = precision}; }

LayoutOptions from_master() { return {.master = true}; }

const WeightAverage kAverage{.decay = 0.9};

INSTANTIATE_TEST_SUITE_P(
    Table, CleanAudits,
    testing::Values(
        Clean{"fp16", "gpt", 2, {.clip = 1.0, .layout = precise(Precision::fp16)}},
        Clean{"bf16_gloo", "gpt", 3, {.backend = BackendKind::gloo, .layout = precise(Precision::bf16)}},
        Clean{"statistics", "cnn", 4, {.micro_batch = 1, .average = kAverage}},
        Clean{"frozen",
              "gpt",
              2,
              {.spread = Spread::shard, .layout = kZero3, .parameters = {{.names = "h.0.*", .frozen = true}}}},
        Clean{"zero1_bf16", "llama", 4, {.spread = Spread::hybrid, .layout = sharded(ShardLevel::optimizer, Precision::bf16)}},
        Clean{"zero2", "tied_gpt", 2, {.micro_batch = 2, .spread = Spread::shard, .layout = kZero2}},
        Clean{"offloaded", "gpt", 2, {.spread = Spread::shard, .layout = offloaded()}},
        Clean{"lamb", "gpt", 2, {.spread = Spread::shard, .layout = kZero3}, Lamb{.lr = 1e-3}},
        Clean{"muon", "gpt", 2, {.spread = Spread::shard, .layout = kZero1}, Muon{.lr = 1e-3}},
        Clean{"adafactor", "gpt", 4, {.spread = Spread::hybrid, .layout = kZero1}, Adafactor{.lr = 1e-3}},
        Clean{"pipeline_tied", "deep_tied_gpt", 4, {.micro_batch = 2, .clip = 1.0, .pp = 2}},
        Clean{"tensor", "split_llama", 2, {.micro_batch = 4, .tp = 2}},
        Clean{"context", "llama", 2, {.micro_batch = 4, .cp = 2}},
        Clean{"copies", "mlp", 2, {.micro_batch = 3, .pp = 2, .layout = from_master()}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::audit_test
