// Launches: what plans count on the meta device (nn/cost/measure_cost.h, program/launches.h), against what the checked device
// is given: block by block, by kernel; and whole steps by layout.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "weft/checked_device.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/nn/graph.h"
#include "weft/nn/id_checks.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/trainer.h"

namespace weft::device_launches_test {
namespace {

constexpr int64_t kSamples = 2;

Recipe recipe_of(const std::string& model, const std::string& layout = {}, int micro_batches = 1) {
  const bool is_image = model.find("resnet") != std::string::npos || model.find("cnn") != std::string::npos;
  return parse_recipe(fmt::format(R"(
    model = {{ {} }}
    data = {{ name = "{}", path = "none" }}
    batch = {{ global = {}, micro = {} }}
    layout = {{ {} }}
    optimizer = {{ name = "adamw", clip = 1.0 }}
    run = {{ steps = 9, threads = 1, timeout_s = 60 }}
  )",
                                  model, is_image ? "fashion-mnist" : "text", kSamples * micro_batches, kSamples, layout),
                      "launches_test.toml");
}

const std::string kGpt = R"(name = "gpt", layers = 2, heads = 2, width = 64, context = 32)";
const std::string kLlama = R"(name = "llama", layers = 2, heads = 2, width = 64, context = 32)";

Batch batch_of(const Recipe& recipe) {
  const at::Generator generator = at::detail::createCPUGenerator(1);
  if (tokens_per_sample(recipe.model) == 0) {
    return {{at::randn({kSamples, 1, 28, 28}, generator, at::kFloat).pin_memory()},
            at::randint(10, {kSamples}, generator, at::kLong).pin_memory(),
            0};
  }
  const at::Tensor tokens = at::randint(256, {kSamples, recipe.model.context + 1}, generator, at::kLong);
  return {{tokens.narrow(1, 0, recipe.model.context).contiguous().pin_memory()},
          tokens.narrow(1, 1, recipe.model.context).contiguous().pin_memory(),
          0};
}

/// What the device has been given since the last call.
LaunchesByKernel given() {
  LaunchesByKernel counts;
  static const std::map<std::string, std::string> names{
      {"aten::_scaled_dot_product_flash_attention_for_cpu", "weft::attention"},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", "weft::attention_backward"},
      {"aten::convolution_overrideable", "aten::convolution"},
      {"aten::convolution_backward_overrideable", "aten::convolution_backward"}};
  for (const auto& [kernel, count] : checked_device::launches()) {
    const auto name = names.find(kernel);
    counts[name == names.end() ? kernel : name->second] += static_cast<int>(count);
  }
  checked_device::reset_counts();
  return counts;
}

/// The kernels whose counts differ: "aten::gelu: 1 given, 2 planned".
std::string differences(const LaunchesByKernel& given, const LaunchesByKernel& planned) {
  std::map<std::string, std::pair<int, int>> both;
  for (const auto& [kernel, count] : given) both[kernel].first = count;
  for (const auto& [kernel, count] : planned) both[kernel].second = count;
  std::string text;
  for (const auto& [kernel, counts] : both) {
    if (counts.first != counts.second) text += fmt::format("{}: {} given, {} planned\n", kernel, counts.first, counts.second);
  }
  return text;
}

struct Row {
  const char* name;
  std::string model;
  at::ScalarType dtype = at::kFloat;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class LaunchesOfBlocks : public testing::TestWithParam<Row> {
 protected:
  LaunchesOfBlocks() : device_(on_device({}).device(0)), own_(device_) {}

  struct Planned {
    std::vector<MeasuredCost> blocks;
    LossCost loss;
  };
  Planned planned(const Recipe& recipe) const {
    Model model = build_model(recipe.model);
    const CostOptions options{
        .weight_dtype = GetParam().dtype, .gradient_dtype = GetParam().dtype, .device = TargetDevice::gpu};
    Tensors outputs;
    const MetaBatch batch = meta_batch(recipe, kSamples);
    Planned all{measure_cost(model, batch.inputs, options, &outputs), {}};
    all.loss = measure_loss(model, outputs, batch.target, options);
    return all;
  }

  /// Runs the model as the engine does, on one micro-batch, and compares each pass.
  void run(FlatModel& flat, const Batch& batch, const Planned& planned, bool adds, bool splits) {
    std::vector<Tensors> inputs, outputs;
    Tensors in;
    for (const at::Tensor& input : batch.inputs) {
      const at::Tensor there = input.to(device_);
      in.push_back(there.is_floating_point() ? there.to(GetParam().dtype) : there);
    }
    given();
    const auto compare = [&](int block, const char* pass, LaunchesByKernel expected, bool writes = false) {
      const GroupRange statistics = flat.statistics_range(block);
      if (writes && statistics.begin < statistics.end)
        ++expected["aten::zero_"];  // their change, which the engine would add to
      EXPECT_EQ(differences(given(), expected), "") << pass << " of " << flat.model().blocks[static_cast<size_t>(block)].name;
    };
    for (int b = 0; b < flat.num_blocks(); ++b) {
      inputs.push_back(in);
      outputs.push_back(without_gaps(flat.block(b).forward(in, context_)));
      compare(b, "forward", planned.blocks[static_cast<size_t>(b)].launches.forward);
      in = detach_outputs(outputs.back());
    }
    const Tensors ends = detach(outputs.back());
    const at::Tensor target = batch.target.to(device_);
    given();
    const Loss& loss = flat.model().loss;
    const LossValue value = loss(loss.takes_any_type() ? ends : widen(ends), target, context_);
    run_backward(Tensors{value.sum}, {at::ones_like(value.sum)});
    EXPECT_EQ(differences(given(), planned.loss.launches), "") << "loss and its backward";
    Tensors gradients = take_gradients(ends);
    for (int b = flat.num_blocks() - 1; b >= 0; --b) {
      const MeasuredLaunches& expected = planned.blocks[static_cast<size_t>(b)].launches;
      const auto at = static_cast<size_t>(b);
      if (splits && flat.block(b).can_split_backward()) {
        DeferredGradients deferred = run_backward_input(flat.trained(b), GraphEnds(outputs[at]), gradients);
        compare(b, "backward_input", expected.input);
        deferred.run();
        flat.settle_gradients(b, {});
        compare(b, "backward_weight", adds ? expected.adding_weight : expected.weight, !adds);
      } else {
        run_backward(GraphEnds(outputs[at]), gradients);
        flat.settle_gradients(b, {});
        compare(b, adds ? "adding backward" : "backward", adds ? expected.adding_backward : expected.backward, !adds);
      }
      gradients = take_gradients(inputs[at]);
    }
  }

  at::Device device_;
  c10::DeviceGuard own_;
  Context context_{.seed = 1, .training = true};
};

TEST_P(LaunchesOfBlocks, AreAsPlanned) {
  const Recipe recipe = recipe_of(GetParam().model);
  const Planned planned = this->planned(recipe);
  FlatModel flat(build_model(recipe.model),
                 {.device = device_, .weight_dtype = GetParam().dtype, .gradient_dtype = GetParam().dtype});
  for (int b = 0; b < flat.num_blocks(); ++b) flat.initialise(b, 1);
  IdChecks ids;
  const IdChecks::Scope scope(ids, context_, "the test");
  checked_ids("place", batch_of(recipe).target.to(device_), 256);  // makes the place of the notes
  for (const bool splits : {false, true}) {
    for (int b = 0; b < flat.num_blocks(); ++b) flat.clear_gradients(b);
    for (const bool adds : {false, true}) run(flat, batch_of(recipe), planned, adds, splits);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, LaunchesOfBlocks,
                         testing::Values(Row{"gpt", kGpt}, Row{"gpt_bf16", kGpt, at::kBFloat16}, Row{"llama", kLlama},
                                         Row{"llama_bf16", kLlama, at::kBFloat16}, Row{"gpt_dropout", kGpt + ", dropout = 0.1"},
                                         Row{"cnn", R"(name = "cnn", width = 4)"}),
                         [](const auto& info) { return info.param.name; });

struct Step {
  const char* name;
  int ranks;
  std::string model, layout;
  int micro_batches = 1;
  double bound = 0.02;
};
void PrintTo(const Step& step, std::ostream* out) { *out << step.name; }

class LaunchesOfSteps : public testing::TestWithParam<Step> {};

/// All ranks together, in a step after the first two, which allocate what stays.
LaunchesByKernel launches_of(const Recipe& recipe, const ResolvedLayout& layout, int ranks) {
  const auto device = on_device({}).device;
  constexpr int kWarmUp = 2;
  std::barrier<> together(ranks);
  LaunchesByKernel launches;
  test::run_ranks(ranks, [&](const World& world) {
    const checked_device::OwnDevice own(world.rank());
    Trainer trainer(Mesh(world, mesh_axes(layout)), build_model(recipe.model), optimizer_of(recipe.optimizer),
                    trainer_options(recipe, layout, device(world.rank())));
    const Batch batch = batch_of(recipe);
    for (int step = 0; step <= kWarmUp; ++step) {
      together.arrive_and_wait();
      if (step == kWarmUp && world.rank() == 0) checked_device::reset_counts();
      together.arrive_and_wait();
      trainer.step([&batch] { return batch; });
    }
    together.arrive_and_wait();
    if (world.rank() == 0) launches = given();
    together.arrive_and_wait();
  });
  return launches;
}

/// The engine's own launches are counted by hand, without some that are few in larger models.
TEST_P(LaunchesOfSteps, AreAsPlanned) {
  const Step& row = GetParam();
  const bool replicates = row.layout.find("pp") == std::string::npos && row.layout.find("tp") == std::string::npos;
  const Recipe recipe = recipe_of(row.model, row.layout, row.micro_batches * (replicates ? row.ranks : 1));
  Recipe planned = recipe;
  planned.run.device = "cuda";
  const Plan plan = make_plan(planned, row.ranks);
  const ModelLaunches& model = plan.costs->model_launches(plan.layout.micro_batch, plan.layout.options, plan.layout);
  int expected = 0, actual = 0;
  std::string counts;
  for (int rank = 0; rank < row.ranks; ++rank) {
    const InstructionList& list = plan.program->of(rank);
    const std::vector<HostWork> work = host_work(*plan.program, list, model);
    for (size_t i = 0; i < list.size(); ++i) {
      expected += work[i].launches;
      counts += fmt::format("rank {}: {}: {}\n", rank, describe(list[i], plan.program->block_names), work[i].launches);
    }
  }
  for (const auto& [kernel, count] : launches_of(recipe, plan.layout, row.ranks)) {
    actual += count;
    counts += fmt::format("given: {} {}\n", kernel, count);
  }
  EXPECT_EQ(said_of_device(), "");
  EXPECT_NEAR(actual, expected, row.bound * expected) << counts;
}

INSTANTIATE_TEST_SUITE_P(
    Table, LaunchesOfSteps,
    testing::Values(Step{"one", 1, kGpt, ""}, Step{"llama", 1, kLlama, ""}, Step{"micro_batches", 1, kGpt, "", 4},
                    Step{"dp", 2, kGpt, ""}, Step{"zero_2", 2, kGpt, R"(shard_level = "gradients")", 2},
                    Step{"zero_3", 2, kGpt, R"(shard_level = "parameters")", 2},
                    Step{"cnn", 1, R"(name = "cnn", width = 4)", "", 2, 0.1}, Step{"loss_chunk", 1, kLlama, "loss_chunk = 8"},
                    Step{"recompute", 1, kGpt, R"(recompute = "blocks")"}, Step{"bf16", 1, kGpt, R"(precision = "bf16")"},
                    Step{"bf16_zero_2", 2, kGpt, R"(precision = "bf16", shard_level = "gradients")", 1, 0.04},
                    Step{"reduced_in_float", 1, kGpt, R"(precision = "bf16", reduction = "fp32")"},
                    Step{"pp", 2, kGpt, R"(pp = 2, schedule = "1f1b")", 4},
                    Step{"zb_h1", 2, kGpt, R"(pp = 2, schedule = "zb-h1")", 4}, Step{"tp", 2, kGpt, "tp = 2"},
                    Step{"sequence", 2, kLlama, "tp = 2, sequence_parallel = true"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::device_launches_test
