// State after a failed call: a trainer that refuses to continue, and unchanged running statistics.
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <new>
#include <ostream>

#include "weft/base/error.h"
#include "weft/models/vision.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/attempts.h"
#include "weft/train/trainer/trainer.h"

namespace weft::failures_test {
namespace {

constexpr int64_t kBatch = 8;

/// This thread's tensors that may still be made; negative: any number.
thread_local int64_t allocations_left = -1;

/// Runs out of memory on request. Lives as long as the process, as do tensors made through it.
class FailingAllocator : public at::Allocator {
 public:
  explicit FailingAllocator(at::Allocator* inner) : inner_(inner) {}
  at::DataPtr allocate(size_t bytes) override {
    if (allocations_left == 0) throw std::bad_alloc();
    if (allocations_left > 0) --allocations_left;
    return inner_->allocate(bytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

 private:
  at::Allocator* inner_;
};

/// While it lives, this thread's tensors but the first so many cannot be made.
class OutOfMemoryAfter {
 public:
  explicit OutOfMemoryAfter(int64_t allocations) {
    static const bool installed = [] {
      constexpr uint8_t kPriority = 100;  // that of the ledger's: whichever is made later goes through the other
      static FailingAllocator allocator(c10::GetCPUAllocator());
      c10::SetCPUAllocator(&allocator, kPriority);
      return true;
    }();
    static_cast<void>(installed);
    allocations_left = allocations;
  }
  ~OutOfMemoryAfter() { allocations_left = -1; }
  OutOfMemoryAfter(const OutOfMemoryAfter&) = delete;
  OutOfMemoryAfter& operator=(const OutOfMemoryAfter&) = delete;
};

Batch batch_of(int64_t step) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
  const at::Tensor x = at::randn({kBatch, 6}, generator, at::kFloat);
  return {{x}, at::randint(3, {kBatch}, generator, at::kLong), step * kBatch};
}

/// The exception text of `call`, or empty.
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void expect_refused(const std::function<void()>& call, const std::string& failed) {
  const std::string error = error_of(call);
  EXPECT_NE(error.find("trainer: " + failed + " failed ("), std::string::npos) << "it said: " << error;
  EXPECT_NE(error.find("make a new one, with a new model and loader, from weights you saved"), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

void expect_all_refused(Trainer& trainer, const std::string& failed) {
  expect_refused([&] { trainer.start(); }, failed);
  expect_refused([&] { trainer.step(batch_of(0)); }, failed);
  expect_refused([&] { trainer.model(); }, failed);
  expect_refused([&] { trainer.for_each_weight([](const std::string&, const at::Tensor&) {}); }, failed);
}

struct Case {
  const char* name;
  LayoutOptions layout;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class FailuresTest : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Trainer> make() const {
    return std::make_unique<Trainer>(
        Mesh(World(), {{"dp", 1}}), mlp({.inputs = 6, .width = 8, .layers = 1, .classes = 3}), AdamW{},
        TrainerOptions{.global_batch = kBatch, .micro_batch = 4, .clip = 1.0, .layout = GetParam().layout});
  }
};

TEST_P(FailuresTest, AStartThatRanOutOfMemoryIsNotFollowedByAnything) {
  int64_t failures = 0;
  for (bool failed = true; failed; failures += failed ? 1 : 0) {
    const auto trainer = make();
    {
      const OutOfMemoryAfter limit(failures);
      failed = !error_of([&] { trainer->start(); }).empty();
    }
    if (failed) expect_all_refused(*trainer, "the start");
    if (!failed) {
      EXPECT_GT(trainer->step(batch_of(0)).loss, 0.0);
    }
  }
  EXPECT_GE(failures, 3);
}

TEST_P(FailuresTest, AStepThatRanOutOfMemoryIsNotFollowedByAnything) {
  int64_t failures = 0;
  for (bool failed = true; failed; failures += failed ? 1 : 0) {
    const auto trainer = make();
    trainer->start();
    const Batch batch = batch_of(0);
    {
      const OutOfMemoryAfter limit(failures);
      failed = !error_of([&] { trainer->step(batch); }).empty();
    }
    EXPECT_EQ(trainer->steps_done(), failed ? 0 : 1);
    if (failed) expect_all_refused(*trainer, "step 1");
  }
  EXPECT_GT(failures, 20);
}

INSTANTIATE_TEST_SUITE_P(Layouts, FailuresTest,
                         ::testing::Values(Case{"replicas", {}}, Case{"parameters_on_disk",
                                                                      {.shard_level = ShardLevel::parameters,
                                                                       .offload_optimizer = Offload::disk,
                                                                       .offload_parameters = Offload::disk}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Failures, ALoaderThatThrewIsOneMicroBatchAhead) {
  Trainer trainer(Mesh(World(), {{"dp", 1}}), mlp({.inputs = 6, .width = 8, .layers = 1, .classes = 3}), Sgd{},
                  {.global_batch = kBatch, .micro_batch = 4});
  trainer.step(batch_of(0));
  int asked = 0;
  EXPECT_THROW(trainer.step([&]() -> Batch {
    if (++asked == 2) throw std::runtime_error("bad record\nin a file");
    return {{batch_of(1).inputs[0].narrow(0, 0, 4)}, batch_of(1).target.narrow(0, 0, 4), kBatch};
  }),
               std::runtime_error);
  expect_all_refused(trainer, "step 2");
}

/// BatchNorm and a linear layer whose forward throws on request.
struct Fragile {
  torch::nn::BatchNorm1d norm{6};
  torch::nn::Linear head{6, 3};
  int forwards_left = 1000;
  bool takes_all_memory = false;

  Model model() {
    auto both = std::make_shared<torch::nn::Module>();
    both->register_module("norm", norm.ptr());
    both->register_module("head", head.ptr());
    const auto forward = [this](const Tensors& inputs) -> Tensors {
      const at::Tensor y = norm->forward(inputs.front());
      if (--forwards_left < 0) throw std::runtime_error("a forward that throws");
      const at::Tensor z = head->forward(y);
      if (takes_all_memory) allocations_left = 0;
      return {z};
    };
    return {.name = "fragile", .blocks = {{"all", "", module_block("all", both, forward)}}, .loss = cross_entropy};
  }
};

TEST(Failures, AForwardThatThrowsLeavesRunningStatisticsAsTheyWere) {
  Fragile fragile;
  Trainer trainer(Mesh(World(), {{"dp", 1}}), fragile.model(), Sgd{}, {.global_batch = kBatch, .micro_batch = 4});
  trainer.step(batch_of(0));
  const at::Tensor mean = fragile.norm->running_mean.clone(), variance = fragile.norm->running_var.clone();
  fragile.forwards_left = 1;  // the second micro-batch
  EXPECT_THROW(trainer.step(batch_of(1)), std::runtime_error);
  EXPECT_TRUE(at::equal(fragile.norm->running_mean, mean));
  EXPECT_TRUE(at::equal(fragile.norm->running_var, variance));
  expect_all_refused(trainer, "step 2");
}

TEST(Failures, AForwardThatLeavesNoMemoryLeavesRunningStatisticsAsTheyWere) {
  Fragile fragile;
  Trainer trainer(Mesh(World(), {{"dp", 1}}), fragile.model(), Sgd{}, {.global_batch = kBatch, .micro_batch = 4});
  trainer.step(batch_of(0));
  const at::Tensor mean = fragile.norm->running_mean.clone(), variance = fragile.norm->running_var.clone();
  const Batch batch = batch_of(1);
  std::string error;
  {
    const OutOfMemoryAfter unlimited(-1);
    fragile.takes_all_memory = true;  // none is left for the change that the forward made
    error = error_of([&] { trainer.step(batch); });
  }
  EXPECT_NE(error, "");
  EXPECT_TRUE(at::equal(fragile.norm->running_mean, mean));
  EXPECT_TRUE(at::equal(fragile.norm->running_var, variance));
  expect_all_refused(trainer, "step 2");
}

/// An error whose text is long, and of several lines.
class LongError : public std::exception {
 public:
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_ = std::string(10 << 20, 'x') + "\n" + std::string(10 << 20, 'y');
};

TEST(Failures, WhatLibTorchThrowsIsALineThatNamesTheBlock) {
  const auto model = [] { return sequential_model("net", torch::nn::Sequential(torch::nn::Linear(6, 3))); };
  Trainer trainer(Mesh(World(), {{"dp", 1}}), model(), Sgd{}, {.global_batch = kBatch, .micro_batch = kBatch});
  const std::string error = error_of([&] { trainer.step({{at::zeros({kBatch, 99})}, at::zeros({kBatch}, at::kLong), 0}); });
  EXPECT_EQ(error.rfind("the forward of block '", 0), 0u) << error;
  EXPECT_NE(error.find("mat1 and mat2 shapes cannot be multiplied (8x99 and "), std::string::npos) << error;
  EXPECT_EQ(error.find("frame"), std::string::npos) << error;
  Trainer another(Mesh(World(), {{"dp", 1}}), model(), Sgd{}, {.global_batch = kBatch, .micro_batch = kBatch});
  Batch wrong = batch_of(0);
  wrong.target.fill_(77);
  const std::string loss = error_of([&] { another.step(wrong); });
  EXPECT_EQ(loss, "step 1, micro-batch 0: loss: target 77 at position 0 is not one of the 3 classes of the logits");
}

LossValue squares(const Tensors& outputs, const at::Tensor& target) {
  return {(outputs.front() - target).square().sum(), target.numel()};
}

/// torch's own, whose error does not name the tensor.
LossValue plain_cross_entropy(const Tensors& outputs, const at::Tensor& target) {
  return {at::cross_entropy_loss(outputs.front(), target, {}, at::Reduction::Sum), target.numel()};
}

TEST(Failures, NameBlockOrLossAndTheTensorsThatItWasGiven) {
  using torch::nn::Embedding;
  using torch::nn::EmbeddingOptions;
  using torch::nn::Linear;
  using torch::nn::Sequential;
  const at::Tensor ids = at::zeros({kBatch}, at::kLong), numbers = at::zeros({kBatch, 6}), likely = at::zeros({kBatch, 4});
  struct Case {
    Sequential net;
    Loss loss;
    at::Tensor input, target;
    std::string error;
  };
  const Case cases[] = {
      {Sequential(Embedding(9, 4)), squares, ids.to(at::kShort), likely,
       "the forward of block '0': Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
       "Int; but got CPUShortType instead (while checking arguments for embedding) (inputs: Short [8])"},
      {Sequential(Embedding(EmbeddingOptions(9, 4).sparse(true))), squares, ids, likely,
       "model: the gradient of parameter '0.weight' is sparse, weft's are dense; make the layer in block '0' without sparse "
       "gradients (EmbeddingOptions::sparse)"},
      {Sequential(Linear(6, 4)), cross_entropy, numbers, ids.to(at::kInt),
       "step 1, micro-batch 0: loss: target is Int [8]; it must be class ids, Long"},
      {Sequential(Linear(6, 4)), plain_cross_entropy, numbers, ids.to(at::kInt),
       "step 1, micro-batch 0: loss: expected scalar type Long but found Int (outputs: Float [8, 4]; target: Int [8])"},
      {Sequential(Linear(6, 4)), squares, numbers, at::zeros({kBatch, 3}),
       "step 1, micro-batch 0: loss: The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 1 "
       "(outputs: Float [8, 4]; target: Float [8, 3])"}};
  for (const Case& c : cases) {
    Trainer trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", c.net, c.loss), Sgd{},
                    {.global_batch = kBatch, .micro_batch = kBatch});
    EXPECT_EQ(error_of([&] { trainer.step({{c.input}, c.target, 0}); }), c.error);
  }
}

TEST(Failures, AnErrorOfAnyLengthIsRememberedInALineThatCanBeRead) {
  Attempts attempts;
  EXPECT_THROW(attempts.run("the first", []() -> int { throw LongError(); }), LongError);
  EXPECT_THROW(attempts.run("the second", []() -> int { throw std::runtime_error("never called"); }), Error);
  expect_refused([&] { attempts.run("the third", [] { return 0; }); }, "the first");
  EXPECT_LT(error_of([&] { attempts.run("the third", [] { return 0; }); }).size(), 2000u);
}

}  // namespace
}  // namespace weft::failures_test
