// Batches as a user hands them out: samples are numbered by the trainer, every tensor's samples are counted, and an evaluation
// is the same for every layout.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/nn/bound_layer.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/base/error.h"
#include "weft/models/vision.h"
#include "weft/nn/layers/layers.h"

namespace weft::batches_test {
namespace {

constexpr int64_t kBatch = 16, kMicroBatch = 2;
constexpr int kSlots = 4;

struct Shape {
  const char* name;
  int pp = 1, dp = 1, shard = 1;
  LayoutOptions layout = {};

  int ranks() const { return pp * dp * shard; }
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"one"},
      {"dp_2", 1, 2},
      {"dp_4", 1, 4},
      {"zero3", 1, 1, 2, {.shard_level = ShardLevel::parameters}},
      {"zero1_of_two", 1, 2, 2, {.shard_level = ShardLevel::optimizer}},
      {"pp_2", 2},
      {"pp_4", 4},
      {"pp_2_of_two", 2, 2, 1, {.pipeline = {.schedule = "zb-v"}}},
      {"pp_2_zero3", 2, 1, 2, {.shard_level = ShardLevel::parameters}},
  };
  return all;
}

/// A trainer of the shape on each rank.
void with_trainers(const Shape& shape, const std::function<void(const Mesh&, Trainer&)>& body) {
  test::run_ranks(shape.ranks(), [&](World world) {
    const Mesh mesh(world, {{"pp", shape.pp}, {"dp", shape.dp}, {"shard", shape.shard}});
    Trainer trainer(mesh, job("deep_gpt").model(), AdamW{.lr = 0.01},
                    {.global_batch = kBatch, .micro_batch = kMicroBatch, .reproducible_slots = kSlots, .layout = shape.layout});
    body(mesh, trainer);
  });
}

/// By hand, micro-batch by micro-batch; each numbers its first sample 0, or with a number that no layout has.
std::vector<double> losses(const Shape& shape, int64_t first_sample) {
  std::vector<double> result;
  with_trainers(shape, [&](const Mesh& mesh, Trainer& trainer) {
    const Axis data = mesh.join({"dp", "shard"});
    for (int64_t step = 0; step < 3; ++step) {
      int64_t begin = kBatch / data.size() * data.index;
      const StepResult one = trainer.step([&] {
        Batch micro = slice(job("deep_gpt").batch_of(step), begin, kMicroBatch);
        begin += kMicroBatch;
        micro.first_sample = first_sample;
        return micro;
      });
      if (mesh.world().rank() == 0) result.push_back(one.loss);
    }
  });
  return result;
}

TEST(Batches, DropoutIsKeyedByASamplesPlaceWhateverTheUserCallsIt) {
  std::vector<double> expected;
  with_trainers({"one"}, [&](const Mesh&, Trainer& trainer) {
    for (int64_t step = 0; step < 3; ++step) expected.push_back(trainer.step(job("deep_gpt").batch_of(step)).loss);
  });
  for (const Shape& shape : shapes()) EXPECT_EQ(losses(shape, 0), expected) << shape.name;
  EXPECT_EQ(losses({"one"}, 77), expected);
}

Model tiny_mlp() { return mlp({.inputs = 6, .width = 8, .layers = 1, .classes = 3}); }

at::Tensor rows(int64_t count) { return at::ones({count, 6}); }
at::Tensor labels(int64_t count) { return at::zeros({count}, at::kLong); }

struct Misfit {
  const char* what;
  Batch batch;
  const char* says;
};

const std::vector<Misfit>& misfits() {
  static const std::vector<Misfit> all = {
      {"twice the inputs", {{rows(16)}, labels(8)}, "input 0 has 16 samples"},
      {"half the inputs", {{rows(4)}, labels(8)}, "input 0 has 4 samples"},
      {"twice the second input", {{rows(8), rows(16)}, labels(8)}, "input 1 has 16 samples"},
      {"twice the targets", {{rows(8)}, labels(16)}, "the target has 16 samples"},
      {"a single number as input", {{rows(8), at::ones({})}, labels(8)}, "input 1 has no dimension of samples"},
      {"no target", {{rows(8)}, {}}, "the target is missing"},
  };
  return all;
}

Trainer trainer_of_eight() {
  return Trainer(Mesh(World(), {{"dp", 1}}), tiny_mlp(), Sgd{}, {.global_batch = 8, .micro_batch = 8});
}

TEST(Batches, EveryTensorMustHaveTheSamplesThatAreDue) {
  for (const Misfit& c : misfits()) {
    Trainer of_batches = trainer_of_eight(), of_micro_batches = trainer_of_eight();
    const std::string whole = test::refusal([&] { of_batches.step(c.batch); });
    const std::string micro = test::refusal([&] { of_micro_batches.step([&] { return c.batch; }); });
    EXPECT_NE(whole.find(std::string("trainer: ") + c.says + " in a batch on rank 0, must have 8"), std::string::npos)
        << c.what << ": " << whole;
    EXPECT_NE(micro.find(std::string("trainer: ") + c.says + " in a micro-batch, must have 8"), std::string::npos)
        << c.what << ": " << micro;
  }
}

TEST(Batches, WithoutInputsAreRefused) {
  Trainer trainer(Mesh(World(), {{"dp", 1}}), tiny_mlp(), Sgd{}, {.global_batch = 8, .micro_batch = 4});
  EXPECT_EQ(test::refusal([&] { trainer.step(Batch{{}, labels(8)}); }), "step 1, micro-batch 0: it has no inputs");
}

/// Hands out the same batch whatever it is asked for.
class Fixed : public Dataset {
 public:
  Fixed(int64_t size, Batch batch) : size_(size), batch_(std::move(batch)) {}
  int64_t size() const override { return size_; }
  Batch get(const std::vector<int64_t>&, int64_t) const override { return batch_; }

 private:
  int64_t size_;
  Batch batch_;
};

TEST(Batches, OfADatasetAreCheckedInTrainingAndEvaluation) {
  for (const Misfit& c : misfits()) {
    const auto data = std::make_shared<Fixed>(8, c.batch);
    Trainer trains = trainer_of_eight(), evaluates = trainer_of_eight();
    EvaluationLoader evaluation(data, 8, 0, 1);
    Loader training(data, Sampler(8, {}), trains.loader_options());
    const std::string expected = std::string("dataset: ") + c.says + " where 8 were requested";
    EXPECT_EQ(test::refusal([&] { evaluates.evaluate(evaluation); }), expected) << c.what;
    EXPECT_EQ(test::refusal([&] { trains.step(training); }), expected) << c.what;
  }
}

/// 37 windows of 8 tokens, of which some do not count.
class Windows : public Dataset {
 public:
  int64_t size() const override { return 37; }
  Batch get(const std::vector<int64_t>& indices, int64_t) const override {
    std::vector<at::Tensor> windows;
    for (const int64_t index : indices) {
      const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(index));
      windows.push_back(at::randint(13, {1, 9}, generator, at::kLong));
    }
    const at::Tensor tokens = at::cat(windows);
    at::Tensor target = tokens.narrow(1, 1, 8).clone();
    if (indices[0] % 5 == 0) target[0].fill_(kIgnore);
    return {{tokens.narrow(1, 0, 8).contiguous()}, target};
  }
};

EvaluationResult evaluate(const Shape& shape, int64_t micro_batch) {
  EvaluationResult result;
  with_trainers(shape, [&](const Mesh& mesh, Trainer& trainer) {
    const Axis data = mesh.join({"dp", "shard"});
    EvaluationLoader loader(std::make_shared<Windows>(), micro_batch, data.index, data.size());
    trainer.evaluate(loader);
    const EvaluationResult mine = trainer.evaluate(loader);  // once more, from the start
    if (mesh.world().rank() == 0) result = mine;
  });
  return result;
}

TEST(Evaluation, HasTheSameBitsInEveryLayout) {
  for (const int64_t micro_batch : {2, 12}) {  // 19 micro-batches, the last of one sample; 4
    const EvaluationResult expected = evaluate({"one"}, micro_batch);
    EXPECT_GT(expected.count, 0);
    for (const Shape& shape : shapes()) {
      const EvaluationResult result = evaluate(shape, micro_batch);
      EXPECT_EQ(result.loss, expected.loss) << shape.name;
      EXPECT_EQ(result.count, expected.count) << shape.name;
      EXPECT_EQ(result.hits, expected.hits) << shape.name;
    }
  }
}

TEST(Evaluation, RefusesALoaderOfAnotherShare) {
  test::run_ranks(2, [](World world) {
    Trainer trainer(Mesh(world, {{"dp", 2}}), tiny_mlp(), Sgd{}, {.global_batch = 8, .micro_batch = 4});
    EvaluationLoader whole(std::make_shared<Fixed>(8, Batch{{rows(8)}, labels(8)}), 8, 0, 1);
    const std::string error = test::refusal([&] { trainer.evaluate(whole); });
    const std::string rank = std::to_string(world.rank());
    if (error.find("is for data-parallel rank 0 of 1, this one is " + rank + " of 2") == std::string::npos) throw Error(error);
  });
}

TEST(Evaluation, LeavesIntegersAsTheyAre) {
  constexpr int64_t kOdd = (1 << 24) + 1;  // no float32
  Parameter weight{at::ones({1}), {}};
  const auto pass = [&](const Tensors& in, const Context&) -> Tensors { return {in[0].mul(weight.value), in[1]}; };
  Model model{.name = "ids", .blocks = {}, .loss = {}, .hits = {}};
  model.blocks.push_back({"pass", "pass", std::make_shared<FunctionBlock>(pass, std::vector<ParamSpec>{{"w", &weight, {}}})});
  model.loss = [](const Tensors& outputs, const at::Tensor& target) {
    EXPECT_EQ(outputs[0].scalar_type(), at::kFloat) << "what is narrow is widened";
    EXPECT_EQ(outputs[1].scalar_type(), at::kLong);
    return LossValue{outputs[1].sum(), target.numel()};
  };
  Trainer trainer(Mesh(World(), {{"dp", 1}}), std::move(model), Sgd{},
                  {.global_batch = 1, .micro_batch = 1, .layout = {.precision = Precision::bf16}});
  EvaluationLoader loader(std::make_shared<Fixed>(1, Batch{{at::ones({1, 2}), at::full({1}, kOdd, at::kLong)}, labels(1)}), 1,
                          0, 1);
  EXPECT_EQ(trainer.evaluate(loader).loss, static_cast<double>(kOdd));
}

TEST(Evaluation, ALossThatIsNotFiniteIsAnErrorOnEveryRank) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    test::run_ranks(2, [bad](World world) {
      Trainer trainer(Mesh(world, {{"dp", 2}}), tiny_mlp(), Sgd{}, {.global_batch = 2, .micro_batch = 1});
      trainer.step(Batch{{rows(1)}, labels(1)});
      const at::Tensor input = world.rank() == 1 ? at::full({1, 6}, bad) : rows(1);
      EvaluationLoader loader(std::make_shared<Fixed>(4, Batch{{input}, labels(1)}), 1, world.rank(), 2);
      try {
        trainer.evaluate(loader);
        throw Error("passed");
      } catch (const NumericError& error) {
        EXPECT_NE(std::string(error.what()).find("evaluation after step 1: the loss of micro-batch 2 is "), std::string::npos)
            << error.what();
      }
    });
  }
}

TEST(Evaluation, OfNoTargetAtAllIsAnError) {
  Trainer trainer(Mesh(World(), {{"dp", 1}}), tiny_mlp(), Sgd{}, {.global_batch = 4, .micro_batch = 4});
  EvaluationLoader loader(std::make_shared<Fixed>(4, Batch{{rows(4)}, at::full({4}, kIgnore, at::kLong)}), 4, 0, 1);
  EXPECT_NE(test::refusal([&] { trainer.evaluate(loader); }).find("no target of the whole evaluation set counts"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::batches_test
