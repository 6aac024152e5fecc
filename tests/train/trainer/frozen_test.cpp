// Frozen parameters of torch modules: the bits of one device in plain LibTorch in every layout, and no gradient, optimizer
// state or reduction.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <ostream>

#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/reference.h"
#include "weft/base/error.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_block.h"
#include "weft/program/cost.h"
#include "weft/program/memory.h"
#include "weft/train/trainer/trainer.h"

namespace weft::frozen_test {
namespace {

constexpr int64_t kBatch = 8, kMicro = 2;
constexpr int kSlots = 4, kSteps = 3;
constexpr double kRate =
    0.125;  // a power of two: its products are exact, so the update has one rounding however it is computed

using Values = std::map<std::string, at::Tensor>;

/// Two frozen layers, one of which only the bias is trained, a trained one with a constant buffer, a frozen and a trained one.
torch::nn::Sequential network() {
  torch::nn::Sequential result(torch::nn::Linear(6, 10), torch::nn::Tanh(), torch::nn::Linear(10, 10), torch::nn::Tanh(),
                               torch::nn::Linear(10, 12), torch::nn::ReLU(), torch::nn::Linear(12, 12), torch::nn::Tanh(),
                               torch::nn::Linear(12, 12), torch::nn::Tanh(), torch::nn::Linear(12, 3));
  const c10::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(5);
  for (at::Tensor& parameter : result->parameters())
    parameter.copy_(at::randn(parameter.sizes(), generator, at::kFloat).mul(0.4));
  for (const char* name : {"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "8.weight", "8.bias"}) {
    result->named_parameters()[name].requires_grad_(false);
  }
  result->ptr(6)->register_buffer("table", at::arange(100, at::kFloat));
  return result;
}

/// Elements with a gradient by block, in whole runs of 64: the bias of 12; 144 and 12; 36 and 3. Then those without; a buffer
/// has its own memory.
const std::vector<int64_t> kTrained = {0, 0, 64, 256, 0, 128};
const std::vector<int64_t> kFrozen = {128, 128, 128, 0, 192, 0};

Batch batch_of(int64_t step) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
  const at::Tensor x = at::randn({kBatch, 6}, generator, at::kFloat);
  return {{x}, at::randint(3, {kBatch}, generator, at::kLong), step * kBatch};
}

/// One device, plain LibTorch: a backward a micro-batch, summed in the tree of four slots.
Values plain_training() {
  torch::nn::Sequential net = network();
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<Tensors> gradients;
    for (int64_t j = 0; j < kSlots; ++j) {
      const Batch micro = slice(batch_of(step), j * kMicro, kMicro);
      net->zero_grad();
      cross_entropy({net->forward(micro.inputs[0])}, micro.target).sum.div(kBatch).backward();
      gradients.emplace_back();
      for (const at::Tensor& parameter : net->parameters()) {
        gradients.back().push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
      }
    }
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> parameters = net->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].requires_grad()) continue;
      parameters[i].sub_(gradients[0][i].add(gradients[1][i]).add(gradients[2][i].add(gradients[3][i])), kRate);
    }
  }
  Values values;
  for (const auto& entry : net->named_parameters()) values[entry.key()] = entry.value().detach();
  for (const auto& entry : net->named_buffers()) values[entry.key()] = entry.value();
  return values;
}

struct Case {
  const char* name;
  std::vector<AxisSize> mesh;
  LayoutOptions layout;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  const LayoutOptions zero3 = {.shard_level = ShardLevel::parameters};
  LayoutOptions inner = zero3, on_disk = zero3, again = zero3;
  inner.inner_shards = 2;
  on_disk.offload_parameters = on_disk.offload_optimizer = Offload::disk;
  again.recompute_every = 1;
  return {{"one", {{"dp", 1}}, {}},
          {"replicas", {{"dp", 4}}, {}},
          {"zero1", {{"shard", 2}}, {.shard_level = ShardLevel::optimizer}},
          {"zero2_hybrid", {{"dp", 2}, {"shard", 2}}, {.shard_level = ShardLevel::gradients}},
          {"zero3", {{"shard", 2}}, zero3},
          {"zero3_inner", {{"shard", 4}}, inner},
          {"zero3_on_disk", {{"shard", 2}}, on_disk},
          {"zero3_recompute", {{"shard", 2}}, again},
          {"pipeline", {{"pp", 2}}, {}},
          {"pipeline_zero3", {{"pp", 2}, {"shard", 2}}, zero3}};
}

int ranks_of(const Case& c) {
  int ranks = 1;
  for (const AxisSize& axis : c.mesh) ranks *= axis.size;
  return ranks;
}

class FrozenTest : public ::testing::TestWithParam<Case> {
 protected:
  /// On every rank, after the steps.
  void train(const OptimizerOptions& optimizer, LayoutOptions layout, int slots,
             const std::function<void(Trainer&, MemoryLedger&, int rank)>& look) const {
    test::run_ranks(ranks_of(GetParam()), [&](World world) {
      const Mesh mesh(world, GetParam().mesh);
      MemoryLedger ledger;
      Trainer trainer(mesh, sequential_model("net", network()), optimizer,
                      {.global_batch = kBatch,
                       .micro_batch = kMicro,
                       .reproducible_slots = slots,
                       .layout = layout,
                       .communication = {.backend = BackendKind::shm},
                       .ledger = &ledger});
      const Axis data = mesh.join({"dp", "shard"});
      const int64_t share = kBatch / data.size();
      for (int64_t step = 0; step < kSteps; ++step) {
        if (step == 1) ledger.reset_peaks();
        trainer.step(slice(batch_of(step), data.index * share, share));
      }
      look(trainer, ledger, world.rank());
    });
  }
};

TEST_P(FrozenTest, HasTheBitsOfOneDevice) {
  const Values expected = plain_training();
  std::mutex mutex;
  train(Sgd{.lr = kRate, .momentum = 0.0}, GetParam().layout, kSlots, [&](Trainer& trainer, MemoryLedger&, int) {
    size_t seen = 0;
    trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) {
      const std::lock_guard lock(mutex);
      ++seen;
      ASSERT_EQ(expected.count(name), 1u) << name;
      EXPECT_TRUE(at::equal(value, expected.at(name))) << name;
    });
    EXPECT_EQ(seen, expected.size());
  });
}

/// Each category's memory matches the program, which has no room for gradients of frozen parameters.
TEST_P(FrozenTest, TakesNoGradientStateOrReduction) {
  LayoutOptions layout = GetParam().layout;
  layout.precision = Precision::bf16;
  layout.reduce_in_fp32 = true;  // so that updates widen nothing
  train(AdamW{}, layout, 0, [&](Trainer& trainer, MemoryLedger& ledger, int rank) {
    const Program& program = trainer.program();
    const int64_t unit = 64 * program.shards;
    for (int b = 0; b < program.num_blocks(); ++b) {
      EXPECT_EQ(program.block_numel[b], (kTrained[b] + unit - 1) / unit * unit) << "block " << b;
      EXPECT_EQ(program.weight_numel(b) - program.block_numel[b], (kFrozen[b] + unit - 1) / unit * unit) << "block " << b;
      EXPECT_EQ(trainer.model().statistics_range(b).end, 0) << "a clone a forward";
    }
    const MemoryEstimate predicted = estimate_memory(program, rank,
                                                     {.offload_optimizer = layout.offload_optimizer != Offload::none,
                                                      .offload_weights = layout.offload_parameters != Offload::none});
    for (const auto category : {MemoryCategory::weights, MemoryCategory::master, MemoryCategory::gradients,
                                MemoryCategory::optimizer, MemoryCategory::gathered}) {
      const auto expected = static_cast<double>(predicted.of(category));
      EXPECT_NEAR(static_cast<double>(ledger.peak()[static_cast<size_t>(category)]), expected, 0.05 * expected + 16)
          << name(category) << " on rank " << rank;
    }
  });
}

/// Bytes that a rank has sent.
int64_t sent(const Trainer& trainer) {
  int64_t bytes = 0;
  for (const Group& group : trainer.groups()) bytes += group.traffic().bytes;
  return bytes;
}

/// Bytes that stages exchange in a step, which the trainer's program does not contain; the first of a block's outputs is
/// preceded by their shapes, in 64 numbers of 8 bytes.
int64_t sent_to_stages(const InstructionList& list) {
  const int64_t width[] = {10, 10, 12, 12, 12, 3};  // of each block's output
  int64_t bytes = 0;
  for (const Instruction& x : list) {
    if (x.op != Op::send) continue;
    bytes += kMicro * width[x.first] * static_cast<int64_t>(sizeof(float));
    if (x.what == Payload::gradient) bytes += 1;  // whether there is one
    if (x.what == Payload::activation && x.micro == 0) bytes += 128 * 8;
  }
  return bytes;
}

TEST_P(FrozenTest, SendsWhatTheProgramSays) {
  test::run_ranks(ranks_of(GetParam()), [&](World world) {
    const Mesh mesh(world, GetParam().mesh);
    Trainer trainer(mesh, sequential_model("net", network()), Sgd{},
                    {.global_batch = kBatch, .micro_batch = kMicro, .layout = GetParam().layout});
    trainer.start();
    const InstructionList& list = trainer.program().of(world.rank());
    const int64_t declared = step_cost(list).wire_bytes() + sent_to_stages(list);
    const bool has_loss = std::any_of(list.begin(), list.end(), [](const Instruction& x) { return x.op == Op::loss; });
    const Axis data = mesh.join({"dp", "shard"});
    const int64_t share = kBatch / data.size();
    for (int64_t step = 0; step < kSteps; ++step) {
      const int64_t before = sent(trainer);
      trainer.step(slice(batch_of(step), data.index * share, share));
      // Before the first step, what losses are scaled by.
      const int64_t agreement = step == 0 && has_loss && data.index == 0 && data.size() > 1 ? 8 : 0;
      // Includes the check that stages have the same samples: three numbers per rank.
      const int64_t samples = step == 0 ? (mesh.size("pp") - 1) * 3 * int64_t{sizeof(int64_t)} : 0;
      EXPECT_EQ(sent(trainer) - before, declared + agreement + samples) << "step " << step << ", rank " << world.rank();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, FrozenTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Frozen, IsWhatTakesNoGradientWhenTheTrainerIsMade) {
  torch::nn::Sequential net = network();
  Model model = sequential_model("net", net);
  net->ptr(6)->parameters()[0].requires_grad_(false);  // after the blocks were made
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model, Sgd{}, {.global_batch = kBatch, .micro_batch = kBatch});
  EXPECT_EQ(trainer.program().block_numel[3], 64);
  net->ptr(6)->parameters()[1].requires_grad_(false);
  const std::string error = test::refusal([&] { trainer.start(); });
  EXPECT_NE(error.find("parameters or frozen parameters of block '6' have changed since the trainer was made"),
            std::string::npos)
      << error;
}

/// Two of the same size, of which one is frozen.
struct OneOfTwo {
  torch::nn::Linear layers[2] = {torch::nn::Linear(8, 8), torch::nn::Linear(8, 8)};

  void freeze(int which) {
    for (int i : {0, 1}) {
      for (at::Tensor& parameter : layers[i]->parameters()) parameter.requires_grad_(i != which);
    }
  }
  Model one_block() {
    auto both = std::make_shared<torch::nn::Module>();
    both->register_module("first", layers[0].ptr());
    both->register_module("second", layers[1].ptr());
    const auto run = [this](const Tensors& in) -> Tensors { return {layers[1]->forward(layers[0]->forward(in.front()))}; };
    return {.name = "two", .blocks = {{"both", "", module_block("both", both, run)}}, .loss = cross_entropy};
  }
};

TEST(Frozen, IsTheSameOnAllRanks) {
  std::mutex mutex;
  int refused = 0;
  test::run_ranks(2, [&](World world) {
    OneOfTwo two;
    two.freeze(world.rank());
    Trainer trainer(Mesh(world, {{"dp", 2}}), two.one_block(), Sgd{}, {.global_batch = kBatch, .micro_batch = kMicro});
    try {
      trainer.start();
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      ++refused;
      const std::string text = error.what();
      EXPECT_NE(text.find("rank 1 would train differently from rank 0; rank 0 has parameters (their names, shapes, and which "
                          "are frozen): fingerprint"),
                std::string::npos)
          << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST(Frozen, IsNotExchangedForAnotherOfTheSameSizeBeforeTheStart) {
  OneOfTwo two;
  two.freeze(0);
  Trainer trainer(Mesh(World(), {{"dp", 1}}), two.one_block(), Sgd{}, {.global_batch = kBatch, .micro_batch = kMicro});
  two.freeze(1);
  const std::string error = test::refusal([&] { trainer.start(); });
  EXPECT_NE(error.find("parameters or frozen parameters of block 'both' have changed since"), std::string::npos) << error;
}

/// Backward goes no further than it must: what comes before the first trained block takes no gradient.
TEST(Frozen, BlocksBeforeTheFirstTrainedOneRunNoBackward) {
  torch::nn::Sequential net = network();
  std::vector<std::vector<bool>> wanted;
  Model model{.name = "net", .blocks = {}, .loss = cross_entropy};
  for (const size_t i : {0, 2, 4, 6, 8, 10}) {
    const auto layer = std::dynamic_pointer_cast<torch::nn::LinearImpl>(net->ptr(i));
    const std::string name = "l" + std::to_string(i);
    model.blocks.push_back({name, name, module_block(name, layer, [&wanted, layer](const Tensors& inputs) -> Tensors {
                              const at::Tensor y = layer->forward(inputs.front());
                              wanted.push_back({inputs.front().requires_grad(), y.requires_grad()});
                              return {y};
                            })});
  }
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model, Sgd{}, {.global_batch = kBatch, .micro_batch = kBatch});
  trainer.step(batch_of(0));
  const std::vector<std::vector<bool>> expected = {{false, false}, {false, false}, {false, true},
                                                   {true, true},   {true, true},   {true, true}};
  EXPECT_EQ(wanted, expected) << "of each block's input and output";
}

// If nothing before a block is trained its input takes no gradient, and autograd allows changing it: recomputed, the block
// would see the changed one.
TEST(Frozen, ABlockThatChangesItsInputIsAnError) {
  for (const bool after_frozen : {true, false}) {
    torch::nn::Linear frozen(6, 6), trained(6, 3);
    frozen->weight.requires_grad_(false);
    frozen->bias.requires_grad_(false);
    const auto doubles = [trained](const Tensors& inputs) mutable -> Tensors {
      return {trained->forward(at::Tensor(inputs.front()).mul_(2))};
    };
    const auto plain = [frozen](const Tensors& inputs) mutable -> Tensors { return {frozen->forward(inputs.front())}; };
    Model model{.name = "in place", .blocks = {}, .loss = cross_entropy};
    if (after_frozen) model.blocks.push_back({"frozen", "0.", module_block("frozen", frozen.ptr(), plain)});
    model.blocks.push_back({"doubles", "1.", module_block("doubles", trained.ptr(), doubles)});
    const Mesh mesh(World(), {{"dp", 1}});
    Trainer trainer(mesh, std::move(model), Sgd{.lr = 0.1}, {.global_batch = kBatch, .micro_batch = kBatch});
    const std::string error = test::refusal([&] { trainer.step(batch_of(0)); });
    EXPECT_NE(error.find("the forward of block 'doubles' changed its input 0 in place"), std::string::npos) << error;
  }
}

TEST(Frozen, AConstantBufferThatAForwardChangesIsAnError) {
  auto module = std::make_shared<torch::nn::Module>();
  module->register_module("norm", torch::nn::BatchNorm1d(3).ptr());
  at::Tensor count = module->register_buffer("count", at::ones({1}));
  at::Tensor mean = module->register_buffer("running_length", at::ones({1}));
  bool counts = false;
  Model model{.name = "counting",
              .blocks = {{"all", "",
                          module_block("all", module,
                                       [&](const Tensors& inputs) -> Tensors {
                                         const c10::NoGradGuard no_grad;
                                         mean.add_(1.0);
                                         if (counts) count.add_(1.0);
                                         return {inputs.front()};
                                       })}},
              .loss = cross_entropy};
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model, Sgd{}, {.global_batch = kBatch, .micro_batch = 4});
  trainer.step({{at::ones({kBatch, 3})}, at::randint(3, {kBatch}, at::kLong), 0});
  EXPECT_EQ(mean.item<float>(), 2.0F) << "moved by the mean of two changes";
  counts = true;
  const std::string error = test::refusal([&] {
    trainer.step({{at::ones({kBatch, 3})}, at::randint(3, {kBatch}, at::kLong), 0});
  });
  EXPECT_NE(error.find("the forward of block 'all' changed its buffer 'count', which is taken for constant"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace weft::frozen_test
