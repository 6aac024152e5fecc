// State that results could depend on besides a trainer's inputs: the calling thread, process settings, and changes to the model
// after the start. Each has no effect, is restored, or is refused.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cfenv>
#include <functional>
#include <limits>
#include <thread>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "weft/base/error.h"
#include "weft/checkpoint/digest.h"
#include "weft/models/vision.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::caller_state_test {
namespace {

using test::refusal;
using Guard = std::shared_ptr<void>;

constexpr int64_t kBatch = 8;

struct State {
  const char* name;
  Guard (*enter)();           ///< restores the former state at its end
  bool (*is_there)();         ///< in the calling thread
  const char* refused = "";   ///< by steps and evaluations
  const char* changed = "";   ///< the error if the start was without it
  bool alters_start = false;  ///< a run that starts in it may have other bits
};

void PrintTo(const State& state, std::ostream* out) { *out << state.name; }

/// Until its end `set(value)`, then `set(before)`.
template <class Set, class Value>
Guard until_end(const Set& set, Value value, Value before) {
  set(value);
  return {nullptr, [set, before](void*) { set(before); }};
}

Guard default_dtype(caffe2::TypeMeta type) {
  return until_end([](caffe2::TypeMeta t) { c10::set_default_dtype(t); }, type, c10::get_default_dtype());
}

template <class Autograd>
Guard autograd_state(const Autograd& change) {
  c10::AutogradState changed = c10::AutogradState::get_tls_state();
  change(changed);
  return until_end([](const c10::AutogradState& s) { c10::AutogradState::set_tls_state(s); }, changed,
                   c10::AutogradState::get_tls_state());
}

bool flushes() {
  volatile float small = std::numeric_limits<float>::min();
  small = small / 4.0F;
  return small == 0.0F;
}

at::Context& settings() { return at::globalContext(); }
at::Float32Precision matmul_precision() {
  return settings().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
}

const State kStates[] = {
    {"default_float64", [] { return default_dtype(caffe2::TypeMeta::Make<double>()); },
     [] { return c10::get_default_dtype() == caffe2::TypeMeta::Make<double>(); }},
    {"default_bfloat16", [] { return default_dtype(caffe2::TypeMeta::Make<c10::BFloat16>()); },
     [] { return c10::get_default_dtype() == caffe2::TypeMeta::Make<c10::BFloat16>(); }},
    {"no_grad", []() -> Guard { return std::make_shared<c10::NoGradGuard>(); }, [] { return !c10::GradMode::is_enabled(); }},
    {"inference_mode", []() -> Guard { return std::make_shared<c10::InferenceMode>(); },
     [] { return c10::InferenceMode::is_enabled(); }},
    {"below_autograd", []() -> Guard { return std::make_shared<at::AutoDispatchBelowAutograd>(); },
     [] { return c10::impl::tls_local_dispatch_key_set().excluded_.has_any(c10::autograd_dispatch_keyset); }},
    {"no_forward_gradients", [] { return autograd_state([](auto& s) { s.set_fw_grad_mode(false); }); },
     [] { return !c10::AutogradState::get_tls_state().get_fw_grad_mode(); }},
    {"single_threaded_autograd", [] { return autograd_state([](auto& s) { s.set_multithreading_enabled(false); }); },
     [] { return !c10::AutogradState::get_tls_state().get_multithreading_enabled(); }},
    {"anomaly_mode", [] { return until_end([](bool on) { torch::autograd::AnomalyMode::set_enabled(on, on); }, true, false); },
     [] { return torch::autograd::AnomalyMode::is_enabled(); }},
    {"autocast", [] { return until_end([](bool on) { at::autocast::set_autocast_enabled(at::kCPU, on); }, true, false); },
     [] { return at::autocast::is_autocast_enabled(at::kCPU); }, "trainer: autocast is on for cpu in the calling thread"},
    {"threads", [] { return until_end([](int n) { at::set_num_threads(n); }, 3, at::get_num_threads()); },
     [] { return at::get_num_threads() == 3; }, "", "", /*alters_start=*/true},
    {"rounds_up", [] { return until_end([](int way) { std::fesetround(way); }, FE_UPWARD, FE_TONEAREST); },
     [] { return std::fegetround() == FE_UPWARD; }},
    {"flushes_small_numbers", [] { return until_end([](bool on) { at::Context::setFlushDenormal(on); }, true, false); },
     flushes},
    {"deterministic_algorithms",
     [] { return until_end([](bool on) { settings().setDeterministicAlgorithms(on, false); }, true, false); },
     [] { return settings().deterministicAlgorithms(); }, "", "\"deterministic algorithms\" was 'off'"},
    {"no_onednn", [] { return until_end([](bool on) { settings().setUserEnabledMkldnn(on); }, false, true); },
     [] { return !settings().userEnabledMkldnn(); }, "", "\"oneDNN (mkldnn)\" was 'on'", /*alters_start=*/true},
    {"matmul_precision",
     [] {
       const std::string before = at::precision2str(matmul_precision());
       const auto set = [](const std::string& name) {
         settings().setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL, at::str2precision(name));
       };
       return until_end(set, std::string("bf16"), before);
     },
     [] { return matmul_precision() == at::Float32Precision::BF16; }, "", "\"oneDNN's float32 matmul precision\" was 'none'",
     /*alters_start=*/true},
};

/// Values by their order alone. Batch statistics, dropout and an average of the weights are of the run.
torch::nn::Sequential network() {
  torch::nn::Sequential net(torch::nn::Linear(6, 10), torch::nn::BatchNorm1d(10), torch::nn::ReLU(), torch::nn::Dropout(0.3),
                            torch::nn::Linear(10, 3));
  const c10::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(5);
  for (at::Tensor& p : net->parameters()) p.copy_(at::randn(p.sizes(), generator, at::kFloat).mul(0.3));
  return net;
}

class Samples : public Dataset {
 public:
  int64_t size() const override { return 24; }
  Batch get(const std::vector<int64_t>& indices, int64_t) const override {
    static const at::Tensor all = at::arange(6, at::kFloat).add(1).mul(at::arange(24).unsqueeze(1)).mul(0.7).sin();
    const at::Tensor index = at::tensor(indices, at::kLong);
    return {{all.index_select(0, index)}, index.remainder(3), 0};
  }
};

Batch batch_of(int64_t step) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < kBatch; ++i) indices.push_back((step * 5 + i) % 24);
  return Samples().get(indices, 0);
}

/// All that a trainer does: three steps, of a batch, a loader and a function; an evaluation, a save, a load; the weights.
/// `check` is called where the caller's code runs, and between calls.
std::string run(torch::nn::Sequential net, const std::function<void()>& enter, const std::function<void()>& check) {
  const test::TempFolder folder;
  const std::string path = (folder.path() / "saved").string();
  Trainer trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", std::move(net)), AdamW{.lr = 0.01},
                  {.global_batch = kBatch, .micro_batch = 4, .average = {.decay = 0.5}, .clip = 0.5});
  Loader loader(std::make_shared<Samples>(), Sampler(24, {.seed = 1}), trainer.loader_options());
  EvaluationLoader evaluation(std::make_shared<Samples>(), 5, 0, 1);
  std::string reported;
  const auto record = [&](double number) {
    reported += fmt::format("{:a} ", number);
    check();
  };
  trainer.save(path);
  enter();
  record(trainer.step(loader).loss);
  record(trainer.step(batch_of(1)).loss);
  int64_t part = 0;
  record(trainer
             .step([&] {
               check();
               const Batch batch = batch_of(2);
               const int64_t begin = 4 * part++;
               return Batch{{batch.inputs[0].narrow(0, begin, 4)}, batch.target.narrow(0, begin, 4), 0};
             })
             .norm);
  record(trainer.evaluate(evaluation).loss);
  record(trainer.predict(batch_of(1))[0].const_data_ptr<float>()[0]);
  trainer.for_each_prediction(evaluation,
                              [&](int64_t, const Tensors& outputs) { record(outputs[0].const_data_ptr<float>()[0]); });
  const auto digest = [&] {
    std::vector<NamedTensor> weights;
    trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) {
      check();
      weights.push_back({name, value.clone()});
    });
    return weights_sha256(weights);
  };
  trainer.with_average([&] {
    record(trainer.evaluate(evaluation).loss);
    reported += digest() + " ";
  });
  trainer.save(path, {.replace = true});
  trainer.step(batch_of(3));
  trainer.load(path);
  record(trainer.step(batch_of(3)).loss);
  return reported + digest();
}

class CallerState : public ::testing::TestWithParam<State> {};

TEST_P(CallerState, IsWithoutEffectAndIsThereAfterwards) {
  const State& state = GetParam();
  const auto nothing = [] {};
  const std::string expected = run(network(), nothing, nothing);
  for (const bool from_start : {true, false}) {
    SCOPED_TRACE(from_start ? "from the start" : "after the start");
    Guard inside;
    const auto check = [&] { EXPECT_TRUE(state.is_there()); };
    const std::string refused = from_start || *state.refused ? state.refused : state.changed;
    std::string reported;
    const torch::nn::Sequential net = network();
    const std::string error = refusal([&] {
      if (from_start) inside = state.enter();
      const auto enter = [&] {
        if (!from_start) inside = state.enter();
      };
      reported = run(net, enter, check);
    });
    EXPECT_TRUE(state.is_there());
    inside.reset();
    EXPECT_FALSE(state.is_there());
    EXPECT_NE(error.find(refused), std::string::npos) << error;
    EXPECT_EQ(error.empty(), refused.empty()) << error;
    if (!refused.empty() || (from_start && state.alters_start)) continue;
    EXPECT_EQ(reported, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, CallerState, ::testing::ValuesIn(kStates), [](const auto& info) { return info.param.name; });

TEST(CallerState, OfAnotherThreadIsWithoutEffectToo) {
  const std::string expected = run(
      network(), [] {}, [] {});
  std::string reported;
  std::thread([&] {
    at::set_num_threads(1);
    reported = run(
        network(), [] { at::set_num_threads(2); }, [] {});
  }).join();
  EXPECT_EQ(reported, expected);
}

/// Their tensors have no graph, whoever computes with them; those of weft's own models are made at the start. The function that
/// hands out micro-batches may read trained weights.
TEST(CallerState, IsThereInCallsFromWithinAStep) {
  Trainer trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", network()), Sgd{.lr = 0.1},
                  {.global_batch = 4, .micro_batch = 2});
  const c10::NoGradGuard no_grad;
  int asked = 0;
  trainer.step([&]() -> Batch {
    ++asked;
    EXPECT_FALSE(c10::GradMode::is_enabled());
    trainer.for_each_weight([](const std::string&, const at::Tensor&) {});
    EXPECT_FALSE(c10::GradMode::is_enabled());
    return {.inputs = {at::full({2, 6}, static_cast<double>(asked))}, .target = at::zeros({2}, at::kLong)};
  });
  EXPECT_EQ(asked, 2);
}

TEST(CallerState, WhatChangesAStepInProgressIsRefused) {
  const Batch batch{.inputs = {at::ones({2, 6})}, .target = at::zeros({2}, at::kLong)};
  using Call = std::function<void(Trainer&)>;
  for (const Call& call : {Call([&](Trainer& trainer) { trainer.step([&] { return batch; }); }),
                           Call([&](Trainer& trainer) { trainer.submit([&] { return batch; }); }),
                           Call([&](Trainer& trainer) { trainer.predict(batch); }),
                           Call([&](Trainer& trainer) { trainer.with_average([] {}); })}) {
    Trainer trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", network()), Sgd{.lr = 0.1},
                    {.global_batch = 4, .micro_batch = 2, .average = {.decay = 0.5}});
    trainer.step([&] { return batch; });
    const std::string error = refusal([&] {
      trainer.step([&] {
        call(trainer);
        return batch;
      });
    });
    EXPECT_NE(error.find("do that between steps"), std::string::npos) << error;
  }
}

TEST(CallerState, ModulesMadeInInferenceModeAreRefused) {
  const c10::InferenceMode inference;
  const std::string error = refusal([] {
    Trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", network()), Sgd{}, {.global_batch = kBatch});
  });
  EXPECT_NE(error.find("model: parameter '0.weight' was made in inference mode"), std::string::npos) << error;
  Trainer trainer(Mesh(World(), {{"dp", 1}}), mlp({.inputs = 6, .width = 8, .layers = 1, .classes = 3}), Sgd{.lr = 0.1},
                  {.global_batch = kBatch, .micro_batch = kBatch});
  EXPECT_EQ(refusal([&] { trainer.step(batch_of(0)); }), "");
}

TEST(ChangedModel, RequiresGradAfterTheStartIsRefusedByName) {
  for (const bool freeze : {true, false}) {
    torch::nn::Sequential net = network();
    if (!freeze) net[0]->as<torch::nn::Linear>()->weight.requires_grad_(false);
    Trainer trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", net), Sgd{.lr = 0.1},
                    {.global_batch = kBatch, .micro_batch = kBatch});
    trainer.step(batch_of(0));
    at::Tensor& weight = net[0]->as<torch::nn::Linear>()->weight;
    weight.requires_grad_(!freeze);
    EvaluationLoader evaluation(std::make_shared<Samples>(), 8, 0, 1);
    for (const std::function<void()>& call : {std::function<void()>([&] { trainer.step(batch_of(1)); }),
                                              std::function<void()>([&] { trainer.predict(batch_of(1)); }),
                                              std::function<void()>([&] { trainer.evaluate(evaluation); })}) {
      EXPECT_EQ(
          refusal(call),
          fmt::format("trainer: requires_grad_() of parameter '0.weight' was called after the start, when it was {}; call "
                      "it before the trainer is made, or make a new one",
                      freeze ? "trained" : "not trained"));
    }
    weight.requires_grad_(freeze);
    EXPECT_EQ(refusal([&] { trainer.step(batch_of(1)); }), "") << "nothing was left behind";
  }
}

TEST(ChangedModel, NewMemoryAfterTheStartIsRefusedByName) {
  torch::nn::Sequential net = network();
  Trainer trainer(Mesh(World(), {{"dp", 1}}), sequential_model("net", net), Sgd{.lr = 0.1},
                  {.global_batch = kBatch, .micro_batch = kBatch});
  trainer.step(batch_of(0));
  net->to(at::kDouble);
  const std::string error = refusal([&] { trainer.step(batch_of(1)); });
  EXPECT_NE(error.find("trainer: parameter '0.weight' was given memory of its own after the start"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace weft::caller_state_test
