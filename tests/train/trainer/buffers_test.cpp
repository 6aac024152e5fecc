// Buffers of torch modules, of any type: rank 0's everywhere, in checkpoints and weights, in their own type in every precision.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <mutex>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/reference.h"
#include "weft/base/error.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/compare_checkpoints.h"
#include "weft/checkpoint/format/data_writer.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/compare/compare_layouts.h"
#include "weft/train/trainer/trainer.h"

namespace weft::buffers_test {
namespace {

using test::refusal;
using test::TempFolder;
using Values = std::map<std::string, at::Tensor>;

constexpr int64_t kBatch = 8, kMicro = 2, kWidth = 6;
constexpr int kSlots = 4;

/// Its output depends on every buffer, and the buffers on the seed.
struct MixerImpl : torch::nn::Module {
  explicit MixerImpl(uint64_t seed, bool norms = true) {
    const c10::NoGradGuard no_grad;
    at::Generator g = at::detail::createCPUGenerator(seed);
    const auto randn = [&g](std::vector<int64_t> shape) { return at::randn(shape, g, at::kFloat); };
    layer = register_module("layer", torch::nn::Linear(kWidth, kWidth));
    if (norms) norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
    for (at::Tensor& value : layer->parameters()) value.copy_(randn(value.sizes().vec()).mul(0.5));
    perm = register_buffer("perm", at::randperm(kWidth, g, at::kLong));
    mask = register_buffer("mask", at::rand({kWidth}, g, at::kFloat).gt(0.3));
    turn = register_buffer("turn", at::complex(randn({kWidth}), randn({kWidth})));
    table = register_buffer("table", randn({kWidth}).add(257.0F));
    fine = register_buffer("fine", randn({kWidth}).to(at::kDouble).mul(1.0 / 3.0));
    shift = register_buffer("shift", at::tensor(static_cast<int64_t>(seed), at::kShort));
    rows = register_buffer("rows", randn({kWidth, 1}).expand({kWidth, 2}).t());  // elements that share memory, not in a row
    nothing = register_buffer("nothing", at::zeros({0, 3}, at::kInt));
  }
  at::Tensor forward(const at::Tensor& x) {
    types = {perm.scalar_type(), turn.scalar_type(), table.scalar_type(), fine.scalar_type(), x.scalar_type()};
    const at::Tensor turned = at::view_as_real(turn).select(1, 1).add(table.sub(257.0F)).add(fine).add(rows.sum(0)).add(shift);
    const at::Tensor y = layer->forward(x.index_select(1, perm).mul(mask)).tanh().mul(turned.to(x.scalar_type()));
    return norm ? norm->forward(y) : y;
  }

  torch::nn::Linear layer{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor perm, mask, turn, table, fine, shift, rows, nothing;
  std::vector<at::ScalarType> types;  ///< that forward saw
};
TORCH_MODULE(Mixer);

/// Three blocks, all numbers from the seed.
Model network(uint64_t seed) {
  torch::nn::Linear last(kWidth, 3);
  {
    const c10::NoGradGuard no_grad;
    at::Generator g = at::detail::createCPUGenerator(seed);
    for (at::Tensor& value : last->parameters()) value.copy_(at::randn(value.sizes(), g, at::kFloat));
  }
  Model model = sequential_model("net", torch::nn::Sequential(Mixer(seed + 10), Mixer(seed + 20), last));
  return model;
}

Batch batch_of(int64_t step) {
  const at::Generator g = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
  const at::Tensor x = at::randn({kBatch, kWidth}, g, at::kFloat);
  return {{x}, x.select(1, 0).gt(0).to(at::kLong)};
}

/// The samples of a step.
class Samples final : public Dataset {
 public:
  int64_t size() const override { return kBatch; }
  Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    return slice(batch_of(7), indices.front(), static_cast<int64_t>(indices.size()));
  }
};

struct Case {
  const char* name;
  std::vector<AxisSize> mesh;
  LayoutOptions layout = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  const auto level = [](ShardLevel level) { return LayoutOptions{.shard_level = level}; };
  LayoutOptions again = level(ShardLevel::parameters), away = again;
  again.recompute_every = 1;
  away.offload_parameters = away.offload_optimizer = Offload::host;
  return {{"one", {{"dp", 1}}},
          {"replicas", {{"dp", 4}}},
          {"zero1", {{"shard", 2}}, level(ShardLevel::optimizer)},
          {"zero2_hybrid", {{"dp", 2}, {"shard", 2}}, level(ShardLevel::gradients)},
          {"zero3_recompute", {{"shard", 2}}, again},
          {"zero3_offload", {{"shard", 2}}, away},
          {"pipeline", {{"pp", 2}}},
          {"pipeline_hybrid", {{"pp", 2}, {"dp", 2}}},
          {"pipeline_zero3", {{"pp", 2}, {"shard", 2}}, level(ShardLevel::parameters)}};
}

int ranks_of(const Case& c) {
  int ranks = 1;
  for (const AxisSize& axis : c.mesh) ranks *= axis.size;
  return ranks;
}

Values values_of(Trainer& trainer) {
  Values values;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) { values[name] = value; });
  return values;
}

void expect_same(const Values& found, const Values& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    EXPECT_EQ(found.at(name).scalar_type(), value.scalar_type()) << name;
    EXPECT_TRUE(at::equal(found.at(name), value)) << name;
  }
}

TrainerOptions options(const LayoutOptions& layout) {
  return {.global_batch = kBatch, .micro_batch = kMicro, .reproducible_slots = kSlots, .layout = layout};
}

/// A trainer of a rank that seeds its modules differently.
class OnRank {
 public:
  OnRank(World world, const Case& c, uint64_t seed)
      : data_(Mesh(world, c.mesh).join({"dp", "shard"})),
        trainer(Mesh(world, c.mesh), network(seed), Sgd{.lr = 0.125}, options(c.layout)) {}
  void train(int from, int to) {
    const int64_t share = kBatch / data_.size();
    for (int step = from; step < to; ++step) trainer.step(slice(batch_of(step), data_.index * share, share));
  }
  double evaluate() {
    EvaluationLoader loader(std::make_shared<Samples>(), kMicro, data_.index, data_.size());
    return trainer.evaluate(loader).loss;
  }

 private:
  Axis data_;

 public:
  Trainer trainer;
};

constexpr uint64_t kSeed = 3;

/// State of one device after this many steps, with an evaluation after the first.
struct Expected {
  Values values;
  double loss = 0.0;
};

Expected on_one_device(int steps, const std::string& save_to) {
  Expected expected;
  test::run_ranks(1, [&](World world) {
    OnRank run(world, cases()[0], kSeed);
    run.train(0, steps);
    if (!save_to.empty()) run.trainer.save(save_to);
    expected = {values_of(run.trainer), run.evaluate()};
  });
  return expected;
}

class BuffersTest : public ::testing::TestWithParam<Case> {};

TEST_P(BuffersTest, AreThoseOfTheFirstRank) {
  const Expected expected = on_one_device(3, "");
  test::run_ranks(ranks_of(GetParam()), [&](World world) {
    OnRank run(world, GetParam(), kSeed + static_cast<uint64_t>(world.rank()));
    run.train(0, 1);
    run.evaluate();
    run.train(1, 3);
    expect_same(values_of(run.trainer), expected.values);
    EXPECT_EQ(run.evaluate(), expected.loss);
    EXPECT_EQ(expected.values.at("0.norm.num_batches_tracked").item<int64_t>(), 3) << "once a step, whatever the layout";
  });
}

/// Saved in this layout by ranks of which each has other buffers, and loaded on one; and the other way round.
TEST_P(BuffersTest, AreSavedAndLoaded) {
  const TempFolder folder;
  const Expected two = on_one_device(2, folder.file("one")), three = on_one_device(3, "");
  test::run_ranks(ranks_of(GetParam()), [&](World world) {
    OnRank run(world, GetParam(), kSeed + static_cast<uint64_t>(world.rank()));
    run.train(0, 2);
    run.trainer.save(folder.file("many"));
    run.train(2, 3);
    OnRank loads(world, GetParam(), 40 + static_cast<uint64_t>(world.rank()));
    loads.trainer.start();
    EXPECT_EQ(loads.trainer.load(folder.file("one")).skipped, std::vector<std::string>());
    EXPECT_EQ(loads.evaluate(), two.loss);
    loads.train(2, 3);
    expect_same(values_of(loads.trainer), three.values);
  });
  test::run_ranks(1, [&](World world) {
    OnRank run(world, cases()[0], 70);
    run.train(0, 3);  // so that the step after the load is one that its counts have taken in already
    EXPECT_EQ(run.trainer.load(folder.file("many")).skipped, std::vector<std::string>());
    EXPECT_EQ(run.evaluate(), two.loss);
    run.train(2, 3);
    expect_same(values_of(run.trainer), three.values);
  });
}

TEST_P(BuffersTest, AreWeightsThatOthersRead) {
  const TempFolder folder;
  const Expected expected = on_one_device(1, folder.file("a"));
  SavedCheckpoint saved(folder.file("a"));
  const std::vector<NamedTensor> exported = read_weights(saved);
  save_safetensors(folder.file("w.safetensors"), exported);
  Values there;
  for (const NamedTensor& t : exported) there[t.name] = t.tensor;
  expect_same(there, expected.values);
  test::run_ranks(ranks_of(GetParam()), [&](World world) {
    OnRank run(world, GetParam(), 40 + static_cast<uint64_t>(world.rank()));
    EXPECT_EQ(run.trainer.load_weights(folder.file("w.safetensors")).unused, std::vector<std::string>());
    EXPECT_EQ(run.evaluate(), expected.loss);
    expect_same(values_of(run.trainer), expected.values);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, BuffersTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Buffers, KeepTheirTypesInEveryPrecision) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Mixer mixer(5, /*norms=*/false);  // statistics of a torch BatchNorm are refused with narrower weights
    const at::Tensor table = mixer->table.clone();
    Trainer trainer(Mesh(World(), {{"dp", 1}}),
                    sequential_model("net", torch::nn::Sequential(mixer, torch::nn::Linear(kWidth, 3))), Sgd{.lr = 0.1},
                    {.global_batch = kBatch, .micro_batch = kBatch, .layout = {.precision = precision}});
    trainer.step(batch_of(0));
    const at::ScalarType narrow = precision == Precision::fp32   ? at::kFloat
                                  : precision == Precision::bf16 ? at::kBFloat16
                                                                 : at::kHalf;
    EXPECT_EQ(mixer->types, (std::vector<at::ScalarType>{at::kLong, at::kComplexFloat, at::kFloat, at::kDouble, narrow}));
    EXPECT_TRUE(at::equal(mixer->table, table)) << "257 is 256 in bfloat16";
    EvaluationLoader loader(std::make_shared<Samples>(), kMicro, 0, 1);
    trainer.evaluate(loader);
    EXPECT_EQ(mixer->types[2], at::kFloat);
    EXPECT_TRUE(at::equal(values_of(trainer).at("0.table"), table));
  }
}

/// A Linear behind one buffer.
Model with_buffer(const at::Tensor& buffer, const std::string& name = "odd", const TensorNames& names = {}) {
  auto holder = std::make_shared<torch::nn::Module>();
  torch::nn::Linear layer(kWidth, 3);
  holder->register_module("layer", layer.ptr());
  if (buffer.defined()) holder->register_buffer(name, buffer);
  const auto run = [layer](const Tensors& in) mutable -> Tensors { return {layer->forward(in.front())}; };
  return {.name = "net", .blocks = {{"all", "", module_block("all", holder, run, names)}}, .loss = cross_entropy};
}

Trainer alone(Model model) { return Trainer(Mesh(World(), {{"dp", 1}}), std::move(model), Sgd{.lr = 0.1}, options({})); }

TEST(Buffers, ThatDoNotFitACheckpointAreNamed) {
  const TempFolder folder;
  alone(with_buffer(at::arange(4, at::kLong))).save(folder.file("a"));
  alone(with_buffer({})).save(folder.file("without"));
  const auto load = [&](const at::Tensor& buffer, const std::string& from, const LoadOptions& how = {}) {
    Trainer trainer = alone(with_buffer(buffer));
    std::vector<std::string> skipped;
    const std::string error = refusal([&] { skipped = trainer.load(folder.file(from), how).skipped; });
    return error.empty() && !skipped.empty() ? skipped[0] : error;
  };
  const struct {
    at::Tensor buffer;
    const char *from, *error;
  } rows[] = {
      {at::arange(5, at::kLong), "a", "tensor 'model/odd' is Long [4] in the checkpoint, Long [5] in the model"},
      {at::arange(4, at::kInt), "a", "tensor 'model/odd' is Long [4] in the checkpoint, Int [4] in the model"},
      {at::arange(4, at::kLong), "without", "tensor 'model/odd' is not in the checkpoint"},
      {{}, "a", "tensor 'model/odd' of the checkpoint is not in the model"},
      {at::arange(4, at::kLong), "a", ""},
  };
  for (const auto& row : rows) {
    const std::string strict = load(row.buffer, row.from), reported = load(row.buffer, row.from, {.strict = false});
    EXPECT_NE(strict.find(row.error), std::string::npos) << strict;
    EXPECT_EQ(strict.empty(), std::string(row.error).empty()) << strict;
    EXPECT_EQ(reported, row.error);
  }
}

/// Saves like weft before checkpoints held buffers of other types than float32.
void save_as_before(const std::string& from, const TempFolder& folder, const std::string& name) {
  SavedCheckpoint saved(from);
  const std::unique_ptr<Storage> storage = open_storage(folder.path().string());
  DataWriter writer(*storage, name, "data-00000.bin");
  for (const auto& [tensor, stored] : saved.index().tensors) {
    if (stored.type == at::kFloat) writer.add(whole_part(tensor, saved.read(tensor)));
  }
  CheckpointIndex index = writer.close();
  index.texts = saved.index().texts;
  index.texts.erase(kBuffersEntry);
  complete_checkpoint(*storage, name, index);
}

TEST(Buffers, MissingFromAnOlderCheckpointAreReported) {
  const TempFolder folder;
  alone(network(kSeed)).save(folder.file("new"));
  save_as_before(folder.file("new"), folder, "old");
  Trainer trainer = alone(network(kSeed));
  const std::vector<std::string> skipped = trainer.load(folder.file("old")).skipped;
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_NE(skipped[0].find("old: it was saved when checkpoints had only float32 buffers; kept as in this model: "
                            "'0.perm' and "),
            std::string::npos)
      << skipped[0];
  trainer.step(batch_of(0));
}

TEST(Buffers, OfNoCheckpointsTypeAreRefused) {
  const at::Tensor part = at::ones({2, 2});
  const struct {
    at::Tensor buffer;
    const char* error;
  } rows[] = {
      {at::ones({2}, at::kComplexDouble), "trainer: buffer 'odd' is ComplexDouble, which checkpoints cannot store; use"},
      {part.to_sparse(), "model: buffer 'odd' is a sparse tensor, which ranks cannot share and checkpoints cannot store"},
      {part.to(at::kMeta), "model: buffer 'odd' is on the meta device, where it has no values; make it on the CPU"},
  };
  for (const auto& row : rows) {
    const std::string error = refusal([&] { alone(with_buffer(row.buffer)); });
    EXPECT_EQ(error.substr(0, std::string(row.error).size()), row.error);
  }
}

TEST(Buffers, DoNotShareMemoryWithAParameter) {
  torch::nn::Linear layer(kWidth, 3);
  layer->register_buffer("alias", layer->weight.detach());
  const std::string error = refusal([&] { alone(sequential_model("net", torch::nn::Sequential(layer))).start(); });
  EXPECT_NE(error.find("parameter '0.weight' and buffer '0.alias' share memory"), std::string::npos) << error;
}

TEST(Buffers, ThatAreNotSavedAreInNoCheckpoint) {
  const TempFolder folder;
  const auto unsaved = [](int64_t size) { return with_buffer(at::arange(size, at::kLong), "odd", {.unsaved = {"odd"}}); };
  Trainer trainer = alone(unsaved(4));
  trainer.save(folder.file("without"));
  alone(with_buffer(at::arange(4, at::kLong))).save(folder.file("with"));
  EXPECT_EQ(values_of(trainer).count("odd"), 0u);
  EXPECT_EQ(SavedCheckpoint(folder.file("without")).index().tensors.count("model/odd"), 0u);
  for (const char* saved : {"without", "with"}) {  // by others, or when it was saved
    EXPECT_EQ(refusal([&] { alone(unsaved(5)).load(folder.file(saved)); }), "");
    EXPECT_EQ(refusal([&] { alone(unsaved(5)).load_weights(folder.file(saved)); }), "");
  }
  EXPECT_NE(refusal([&] { alone(with_buffer(at::arange(4, at::kLong))).load(folder.file("without")); }), "");
}

TEST(Buffers, OfTheSequenceItselfAreRefused) {
  torch::nn::Sequential net(torch::nn::Linear(kWidth, 3));
  net->register_buffer("scale", at::ones({1}));
  EXPECT_EQ(refusal([&] { sequential_model("net", net); }),
            "model 'net': buffer 'scale' is registered at the sequence itself, but only its modules run; register it at the "
            "module that reads it");
  torch::nn::Sequential other(torch::nn::Linear(kWidth, 3));
  other->register_parameter("gain", at::ones({1}));
  EXPECT_NE(refusal([&] { sequential_model("net", other); }).find("parameter 'gain' is registered at"), std::string::npos);
}

TEST(Buffers, MustBeAlikeOnAllRanks) {
  std::mutex mutex;
  int refused = 0;
  test::run_ranks(2, [&](World world) {
    Trainer trainer(Mesh(world, {{"dp", 2}}), with_buffer(at::arange(4 + world.rank(), at::kLong)), Sgd{}, options({}));
    try {
      trainer.start();
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      ++refused;
      EXPECT_NE(std::string(error.what()).find("rank 0 has buffers (their names, shapes and types): fingerprint"),
                std::string::npos)
          << error.what();
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST(Buffers, InWeightsOfOthersAreLookedAtAsWell) {
  const TempFolder folder;
  const auto file_with = [&](const char* name, const std::vector<NamedTensor>& buffers) {
    std::vector<NamedTensor> tensors = {{"layer.weight", at::zeros({3, kWidth})}, {"layer.bias", at::zeros({3})}};
    tensors.insert(tensors.end(), buffers.begin(), buffers.end());
    save_safetensors(folder.file(name), tensors);
    return folder.file(name);
  };
  const auto load = [](const Model& model, const std::string& path) {
    Trainer trainer = alone(model);
    return refusal([&] { trainer.load_weights(path); });
  };
  const std::string ids = file_with("ids.safetensors", {{"odd", at::arange(4, at::kLong)}});
  const std::string none = file_with("none.safetensors", {});
  const std::string half = file_with("half.safetensors", {{"odd", at::ones({4}, at::kHalf)}});
  EXPECT_EQ(load(with_buffer(at::zeros({4}, at::kLong)), ids), "");
  EXPECT_NE(load(with_buffer(at::zeros({5}, at::kLong)), ids).find("'odd' is [4] there, [5] in the model"), std::string::npos);
  EXPECT_NE(load(with_buffer(at::zeros({4}, at::kInt)), ids).find("'odd' is Long there, Int in the model"), std::string::npos);
  EXPECT_NE(load(with_buffer(at::zeros({4}, at::kLong)), none).find("it has no 'odd'"), std::string::npos);
  EXPECT_EQ(load(with_buffer(at::zeros({4})), half), "") << "floats of another width, as weights may be";
  EXPECT_EQ(load(with_buffer(at::zeros({}, at::kLong), "num_batches_tracked"), none), "") << "not all files have had it";
}

TEST(Buffers, OfTwoNetworksHaveNoMean) {
  const TempFolder folder;
  const auto save = [&](uint64_t seed, int steps, const std::string& name) {
    test::run_ranks(1, [&](World world) {
      OnRank run(world, cases()[0], seed);
      run.train(0, steps);
      run.trainer.save(folder.file(name));
    });
  };
  save(kSeed, 1, "a");
  save(kSeed, 2, "b");
  save(kSeed + 1, 1, "other");
  std::vector<SavedCheckpoint> one_run, two_networks;
  for (const char* name : {"a", "b"}) one_run.emplace_back(folder.file(name));
  for (const char* name : {"a", "other"}) two_networks.emplace_back(folder.file(name));
  Values mean;
  for (const NamedTensor& t : average_weights(one_run)) mean[t.name] = t.tensor;
  EXPECT_TRUE(at::equal(mean.at("0.perm"), one_run[0].read("model/0.perm")));
  EXPECT_TRUE(at::equal(mean.at("0.fine"), one_run[0].read("model/0.fine")));
  EXPECT_EQ(mean.at("0.norm.num_batches_tracked").item<int64_t>(), 2);
  const std::string error = refusal([&] { average_weights(two_networks); });
  EXPECT_NE(error.find("in buffer '0.fine', which training never changes: they are two networks"), std::string::npos) << error;
}

TEST(Buffers, AreComparedBetweenLayouts) {
  test::run_ranks(2, [](World world) {
    const LayoutComparison comparison = compare_layouts(world, {.layout = {.axes = {{"pp", 2}}, .options = options({})},
                                                                .trained = {.model = [] { return network(kSeed); },
                                                                            .optimizer = Sgd{.lr = 0.125},
                                                                            .batches = whole_batches(batch_of)}});
    EXPECT_EQ(comparison.match, LayoutMatch::bit_identical) << (comparison.first() ? comparison.first()->what : "");
    // Two Mixers of 2 parameters, BatchNorm's 2, 2 statistics and a count, and 8 buffers; a Linear.
    if (world.rank() == 0) {
      EXPECT_EQ(comparison.parameters, 2 * 15 + 2);
    }
  });
}

}  // namespace
}  // namespace weft::buffers_test
