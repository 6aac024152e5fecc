// Updates that do without the host: by optimizer, precision and pipeline, a step's waits, and the CPU's bits when steps are
// submitted before the numbers of the one before are read, also as a captured step is replayed, at rates that change. In fp16 a
// step overflows meanwhile.
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <barrier>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/device/on_device.h"
#include "tests/optim/custom_lion.h"
#include "tests/support/run_ranks.h"
#include "weft/checked_device.h"
#include "weft/nn/operators_path.h"

namespace weft::late_updates_test {
namespace {

constexpr int kSteps = 9, kOverflow = 3, kSavedAt = 5;
constexpr int kFirstCounted = 3;  ///< captured steps have begun

struct Row {
  const char* name;
  int ranks = 1;
  Precision precision = Precision::fp16;
  OptimizerOptions optimizer = AdamW{};
  ShardLevel level = ShardLevel::none;
  bool graph = false;
  const char* job = "mlp";
  int pp = 1;  ///< of the ranks; in micro-batches of four samples
  LayoutOptions layout = {};
  double average = 0.0;
  bool noise_scale = false;
  ParameterRules rules = {};
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

/// Who judges a step: the device itself; the host, on the device, as it does where a step may leave out parameters; the host,
/// on the CPU.
enum class Judge { device, host, cpu };

/// What rank 0 has seen of a run.
struct Seen {
  std::vector<double> losses, norms, small_squares;
  std::vector<bool> skipped;
  LossScale scale;
  std::map<std::string, at::Tensor> weights, averages;
  uint64_t waits = 0;           ///< of the host, from step kFirstCounted on, on all ranks
  uint64_t waits_in_steps = 0;  ///< of those, before a step's numbers are asked for
};

/// A block that does not say that it uses all its parameters.
class MayLeaveOut : public Block {
 public:
  explicit MayLeaveOut(std::shared_ptr<Block> block) : block_(std::move(block)) {}
  Tensors forward(const Tensors& inputs, const Context& context) override { return block_->forward(inputs, context); }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }
  std::vector<BufferSpec> buffers() override { return block_->buffers(); }

 private:
  std::shared_ptr<Block> block_;
};

Model model_of(const Row& row, Judge judge) {
  Model model = job(row.job).model();
  if (judge == Judge::host) model.blocks[0].block = std::make_shared<MayLeaveOut>(model.blocks[0].block);
  return model;
}

uint64_t waits_so_far() {
  uint64_t all = 0;
  for (const auto& [what, count] : checked_device::synchronisations()) all += count;
  return all;
}

class LateUpdates : public testing::TestWithParam<Row> {
 protected:
  static int data_ranks() { return GetParam().ranks / GetParam().pp; }
  static Batch share_of(const World& world, int64_t step) {
    const Job& trained = job(GetParam().job);
    const int64_t share = trained.global_batch / data_ranks(), first = world.rank() % data_ranks() * share;
    Batch batch = trained.batch_of(step);
    if (step == kOverflow && GetParam().precision == Precision::fp16) batch.inputs[0].mul_(300.0);
    for (at::Tensor& input : batch.inputs) input = input.narrow(0, first, share).clone().pin_memory();
    batch.target = batch.target.narrow(0, first, share).clone().pin_memory();
    return batch;
  }

  /// Steps [first, until), on the checked device submitted one ahead of the last that is settled.
  static Seen run(Judge judge, int first, int until, const std::string& from = "", const std::string& to = "") {
    const Row& row = GetParam();
    const bool on_cpu = judge == Judge::cpu;
    const Strategy strategy = on_device({});
    Seen seen;
    std::barrier<> together(row.ranks);
    test::run_ranks(row.ranks, [&](const World& world) {
      std::optional<ForcedOperators> operators;
      if (on_cpu) operators.emplace();
      const at::Device device = on_cpu ? at::Device(at::kCPU) : strategy.device(world.rank());
      const c10::DeviceGuard current(device);
      const int64_t global_batch = job(row.job).global_batch, share = global_batch / data_ranks();
      LayoutOptions layout = row.layout;
      layout.shard_level = row.level;
      layout.precision = row.precision;
      Trainer trainer(Mesh(world, {{"pp", row.pp}, {row.level == ShardLevel::none ? "dp" : "shard", data_ranks()}}),
                      model_of(row, judge), row.optimizer,
                      {.global_batch = global_batch,
                       .micro_batch = row.noise_scale ? 1
                                      : row.pp > 1    ? 4
                                                      : share,
                       .learning_rate = {.peak = 0.002, .steps = kSteps, .decay = Decay::cosine},
                       .parameters = row.rules,
                       .average = {.decay = row.average},
                       .clip = 0.5,
                       .noise_scale = row.noise_scale,
                       .layout = layout,
                       .graph = row.graph && judge == Judge::device,
                       .float32_rates = row.graph,
                       .communication = {.backend = on_cpu ? BackendKind::shm : strategy.backend, .device = device}});
      if (!from.empty()) trainer.load(from);
      Seen own;
      const auto alone = [&](const auto& call) {
        together.arrive_and_wait();
        if (world.rank() == 0) call();
        together.arrive_and_wait();
      };
      const auto settle = [&] {
        const StepResult result = trainer.settle();
        own.losses.push_back(result.loss);
        own.norms.push_back(result.norm);
        own.small_squares.push_back(result.small_squares);
        own.skipped.push_back(result.skipped);
      };
      for (int step = first; step < until; ++step) {
        const Batch batch = share_of(world, step);
        alone([&] { checked_device::reset_counts(); });
        trainer.submit(batch);
        if (step >= first + kFirstCounted) alone([&] { own.waits_in_steps += waits_so_far(); });
        while (trainer.unsettled() > (trainer.reads_late() ? 1 : 0)) settle();
        if (step >= first + kFirstCounted) alone([&] { own.waits += waits_so_far(); });
      }
      while (trainer.unsettled() > 0) settle();
      if (!to.empty()) trainer.save(to);
      own.scale = trainer.loss_scale();
      const auto read = [&](auto& to) {
        trainer.for_each_weight([&](const std::string& name, const at::Tensor& x) { to[name] = x.cpu().clone(); });
      };
      read(own.weights);
      if (row.average > 0.0) trainer.with_average([&] { read(own.averages); });
      if (world.rank() == 0) seen = own;
    });
    return seen;
  }
  static void expect_same(const Seen& actual, const Seen& expected, const char* what) {
    EXPECT_EQ(actual.losses, expected.losses) << what;
    EXPECT_EQ(actual.skipped, expected.skipped) << what;
    for (size_t i = 0; i < expected.norms.size(); ++i) {
      if (expected.skipped[i]) continue;
      EXPECT_EQ(actual.norms[i], expected.norms[i]) << what << ", step " << i;
      EXPECT_EQ(actual.small_squares[i], expected.small_squares[i]) << what << ", step " << i;
    }
    EXPECT_EQ(actual.scale.scale, expected.scale.scale) << what;
    EXPECT_EQ(actual.scale.good_steps, expected.scale.good_steps) << what;
    EXPECT_EQ(actual.scale.skipped_steps, expected.scale.skipped_steps) << what;
    for (const auto& [name, value] : expected.weights) EXPECT_TRUE(actual.weights.at(name).equal(value)) << what << " " << name;
    for (const auto& [name, value] : expected.averages) {
      EXPECT_TRUE(actual.averages.at(name).equal(value)) << what << ", average of " << name;
    }
  }
};

/// Whose bits a row has: on four ranks NCCL's sums have an order of their own.
Judge reference() { return LateUpdates::GetParam().ranks <= 2 ? Judge::cpu : Judge::host; }

TEST_P(LateUpdates, WaitOnceAndNotWithinAStep) {
  if (!is_checked_device()) return;
  const Row& row = GetParam();
  said_of_device();
  const Seen late = run(Judge::device, 0, kSteps);
  EXPECT_EQ(said_of_device(), "");
  const Seen expected = run(reference(), 0, kSteps);
  expect_same(late, expected, "late");
  EXPECT_EQ(late.waits_in_steps, 0u);
  EXPECT_EQ(late.waits, static_cast<uint64_t>((kSteps - kFirstCounted) * row.ranks));
  if (row.noise_scale) {
    EXPECT_GT(expected.small_squares.back(), 0.0);
  }
  if (row.precision == Precision::fp16 && row.job == std::string("mlp")) {
    EXPECT_TRUE(expected.skipped[kOverflow]);
    EXPECT_FALSE(expected.skipped[kOverflow + 1]);
  }
}

class LateRuns : public LateUpdates {};

/// A checkpoint after the overflow, continued as if there had been none, by the CPU too.
TEST_P(LateRuns, ContinueFromCheckpoints) {
  if (!is_checked_device()) return;
  const test::TempFolder folder;
  const Seen whole = run(reference(), 0, kSteps);
  for (const bool turns : {false, true}) {
    if (turns && reference() != Judge::cpu) continue;
    const std::string saved = (folder.path() / (turns ? "of_cpu" : "of_device")).string();
    run(turns ? Judge::cpu : Judge::device, 0, kSavedAt, "", saved);
    Seen rest = run(turns || reference() != Judge::cpu ? Judge::device : Judge::cpu, kSavedAt, kSteps, saved);
    const auto before = [](auto& all, const auto& from) { all.insert(all.begin(), from.begin(), from.begin() + kSavedAt); };
    before(rest.losses, whole.losses);
    before(rest.norms, whole.norms);
    before(rest.small_squares, whole.small_squares);
    before(rest.skipped, whole.skipped);
    expect_same(rest, whole, turns ? "saved on the CPU" : "saved on the device");
  }
  EXPECT_EQ(said_of_device(), "");
}

std::vector<Row> rows() {
  std::vector<Row> all = {{.name = "fp16"},
                          {.name = "fp16_of_2", .ranks = 2},
                          {.name = "fp16_of_4", .ranks = 4},
                          {.name = "fp16_zero_3", .ranks = 2, .level = ShardLevel::parameters},
                          {.name = "fp16_zero_3_of_4", .ranks = 4, .level = ShardLevel::parameters},
                          {.name = "fp16_graph", .graph = true},
                          {.name = "fp16_graph_zero_3", .ranks = 2, .level = ShardLevel::parameters, .graph = true},
                          {.name = "bf16", .ranks = 2, .precision = Precision::bf16},
                          {.name = "fp32", .ranks = 2, .precision = Precision::fp32},
                          {.name = "average", .ranks = 2, .level = ShardLevel::parameters, .average = 0.5},
                          {.name = "average_sgd_graph", .optimizer = Sgd{}, .graph = true, .average = 0.5},
                          {.name = "noise_scale", .noise_scale = true},
                          {.name = "noise_scale_of_2", .ranks = 2, .precision = Precision::fp32, .noise_scale = true},
                          {.name = "statistics", .precision = Precision::bf16, .job = "cnn"},
                          {.name = "statistics_of_2", .ranks = 2, .graph = true, .job = "cnn", .average = 0.5}};
  for (const int ranks : {1, 4}) {
    all.push_back({.name = ranks == 1 ? "lamb" : "lamb_of_4", .ranks = ranks, .optimizer = Lamb{}});
    all.push_back({.name = ranks == 1 ? "lars" : "lars_of_4", .ranks = ranks, .optimizer = Lars{}});
    all.push_back({.name = ranks == 1 ? "adafactor" : "adafactor_of_4", .ranks = ranks, .optimizer = Adafactor{}});
  }
  return all;
}

/// Sharded, in fp16 and float32, one of them captured, with rates and weight decays of single parameters: in turns.
std::vector<Row> optimizers() {
  std::vector<Row> all;
  const std::vector<std::pair<const char*, OptimizerOptions>> optimizers = {{"adamw", AdamW{}},
                                                                            {"sgd", Sgd{.momentum = 0.9}},
                                                                            {"lars", Lars{.nesterov = true}},
                                                                            {"lamb", Lamb{}},
                                                                            {"lamb_limited", Lamb{.trust_limit = 0.5}},
                                                                            {"lion", Lion{}},
                                                                            {"rmsprop", RmsProp{.momentum = 0.9}},
                                                                            {"rmsprop_plain", RmsProp{}},
                                                                            {"adagrad", Adagrad{.weight_decay = 0.1}},
                                                                            {"adafactor", Adafactor{.weight_decay = 0.1}},
                                                                            {"muon", Muon{}},
                                                                            {"custom", test::gated_lion()}};
  for (const auto& [name, optimizer] : optimizers) {
    const bool captures_fp16 = all.size() % 4 == 0;
    for (const Precision precision : {Precision::fp32, Precision::fp16}) {
      all.push_back({name, 2, precision, optimizer, ShardLevel::parameters});
      all.back().graph = captures_fp16 == (precision == Precision::fp16);
      if (all.back().graph) all.back().rules = {{.names = "*.bias", .lr_factor = 0.3, .weight_decay = 0.2}};
    }
  }
  return all;
}

/// Of packed documents: later stages learn where these begin from the hosts of earlier ones.
std::vector<Row> pipelines() {
  std::vector<Row> all;
  const auto add = [&](const char* name, int pp) -> LayoutOptions& {
    all.push_back({.name = name, .ranks = pp, .precision = Precision::fp32, .job = "packed_llama", .pp = pp});
    return all.back().layout;
  };
  add("two_stages", 2);
  add("four_stages", 4);
  add("zb_v", 2).pipeline.schedule = "zb-v";
  add("master", 2).master = true;
  LayoutOptions& offloads = add("offload", 2);
  offloads.recompute_every = 1;
  offloads.offload_activations = Offload::host;
  return all;
}

std::string name_of(const testing::TestParamInfo<Row>& info) {
  return fmt::format("{}_{}{}", info.param.name, kPrecisions.of(info.param.precision), info.param.graph ? "_graph" : "");
}

INSTANTIATE_TEST_SUITE_P(Table, LateUpdates, testing::ValuesIn(rows()), [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Pipelines, LateUpdates, testing::ValuesIn(pipelines()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Optimizers, LateUpdates, testing::ValuesIn(optimizers()), name_of);
INSTANTIATE_TEST_SUITE_P(Table, LateRuns, testing::ValuesIn(rows()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::late_updates_test
