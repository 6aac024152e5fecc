// The age of an optimizer's state belongs to its parameter: late unfrozen parameters start as in a fresh run, in all layouts,
// as does state with another meaning to another optimizer.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <string>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/train/weights_of.h"
#include "weft/base/error.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/comm/mesh.h"
#include "weft/nn/modules/module_block.h"
#include "weft/optim/make_optimizer.h"
#include "weft/train/trainer/taken_state.h"
#include "weft/train/trainer/trainer.h"

namespace weft::optimizer_age_test {
namespace {

using test::TempFolder;
using test::Weights;
using test::weights_of;

constexpr double kRate = 1e-3;
constexpr int64_t kSamples = 4, kWidth = 8;
constexpr int kBefore = 20, kAfter = 10;

at::Tensor numbers(at::IntArrayRef sizes, int64_t seed) {
  const int64_t numel = c10::multiply_integers(sizes);
  return at::arange(numel, at::kFloat).mul(0.37).add(static_cast<double>(seed)).sin().view(sizes);
}

/// Two layers and a loss that is linear in their outputs.
Model model() {
  torch::nn::Sequential layers(torch::nn::Linear(kWidth, kWidth), torch::nn::Linear(kWidth, kWidth));
  int64_t seed = 1;
  at::NoGradGuard no_grad;
  for (const at::Tensor& value : layers->parameters()) value.copy_(numbers(value.sizes(), seed++));
  Model model = sequential_model("net", layers, [](const Tensors& out, const at::Tensor& target) -> LossValue {
    return {(out.front() * target).sum(), target.numel()};
  });
  model.hits = {};
  return model;
}

/// One rank's trainer; what matches `still` has a rate of 0, so that the gradients of the rest are the same in every run.
Trainer trainer_of(const World& world, const OptimizerOptions& optimizer, const LayoutOptions& layout, const char* frozen) {
  ParameterRules rules;
  if (*frozen) rules.push_back({.names = frozen, .frozen = true});
  rules.push_back({.names = "0.*", .lr_factor = 0.0, .weight_decay = 0.0});
  return Trainer(Mesh(world, {{"shard", world.size()}}), model(), optimizer,
                 {.global_batch = kSamples, .micro_batch = kSamples / world.size(), .parameters = rules, .layout = layout});
}

/// All with one gradient, of the other sign where `other`.
void take_steps(Trainer& trainer, const World& world, int steps, bool other = false) {
  const int64_t share = kSamples / world.size(), first = share * world.rank();
  const Batch batch{.inputs = {numbers({kSamples, kWidth}, 7).narrow(0, first, share)},
                    .target = numbers({kSamples, kWidth}, 9).narrow(0, first, share).mul(other ? -1.0 : 1.0)};
  for (int step = 0; step < steps; ++step) trainer.step(batch);
}

double moved(const Weights& from, const Weights& to, const std::string& name) {
  return (to.at(name) - from.at(name)).abs().max().item<double>();
}

struct Unfrozen {
  const char* name;
  OptimizerOptions optimizer;
  const char* frozen = "1.*";
  int ranks = 1;
  LayoutOptions layout = {};
};

std::vector<Unfrozen> unfrozen() {
  const OptimizerOptions adamw = AdamW{.lr = kRate, .weight_decay = 0.0};
  LayoutOptions shards, parameters, offloaded;
  shards.shard_level = ShardLevel::optimizer;
  parameters.shard_level = ShardLevel::parameters;
  offloaded.offload_optimizer = Offload::host;
  return {{"adamw", adamw},
          {"half a block", adamw, "1.weight"},
          {"two ranks", adamw, "1.weight", 2},
          {"optimizer shards", adamw, "1.weight", 2, shards},
          {"parameter shards", adamw, "1.*", 2, parameters},
          {"offloaded", adamw, "1.*", 1, offloaded},
          {"lamb", Lamb{.lr = kRate}},
          {"lamb, half a block", Lamb{.lr = kRate}, "1.bias", 2, shards},
          {"adafactor", Adafactor{.lr = kRate}},
          {"adafactor, half a block", Adafactor{.lr = kRate}, "1.weight"},
          {"muon", Muon{.lr = kRate}, "1.*"},
          {"lion", Lion{.lr = kRate}},
          {"rmsprop", RmsProp{.lr = kRate, .momentum = 0.5}}};
}

/// Parameters frozen for some steps, then unfrozen, saved and loaded in between, against a fresh run from the same weights.
TEST(OptimizerAge, UnfrozenParametersMoveLikeInAFreshRun) {
  for (const Unfrozen& row : unfrozen()) {
    SCOPED_TRACE(row.name);
    const TempFolder folder;
    Weights begun, late, fresh;
    const auto on_rank = [&](World world) {
      const auto make = [&](const char* frozen) { return trainer_of(world, row.optimizer, row.layout, frozen); };
      Trainer before = make(row.frozen);
      take_steps(before, world, kBefore, /*other=*/true);
      before.save(folder.file("frozen"));
      Trainer after = make("");
      const LoadReport report = after.load(folder.file("frozen"), {.strict = false});
      const Weights first = weights_of(after);
      Trainer alone = make("");
      alone.load_weights(folder.file("frozen"));
      take_steps(after, world, 3);
      after.save(folder.file("unfrozen"));
      Trainer again = make("");
      again.load(folder.file("unfrozen"));
      take_steps(again, world, kAfter - 3);
      take_steps(alone, world, kAfter);
      const Weights last = weights_of(again), other = weights_of(alone);
      if (world.rank() > 0) return;
      EXPECT_FALSE(report.skipped.empty());
      begun = first, late = last, fresh = other;
    };
    test::run_ranks(row.ranks, on_rank);
    for (const std::string name : {"1.weight", "1.bias"}) {
      if (row.frozen != name && row.frozen != std::string("1.*")) continue;
      EXPECT_TRUE(late.at(name).equal(fresh.at(name))) << name << " off by " << moved(late, fresh, name);
      EXPECT_GT(moved(begun, late, name), 0.0) << name;
      if (std::holds_alternative<AdamW>(row.optimizer)) {
        EXPECT_LE(moved(begun, late, name), 1.001 * kAfter * kRate) << name;
      }
    }
  }
}

/// From one optimizer to another: state with another meaning starts anew, and is reported.
TEST(OptimizerAge, StateIsTakenWhereItMeansTheSame) {
  const AdamW adamw{.lr = kRate, .weight_decay = 0.0};
  const struct {
    const char* name;
    OptimizerOptions from, to;
    bool taken;
    const char* printed;
  } table[] = {{"sgd to adamw", Sgd{.lr = 1e-6}, adamw, false, "'exp_avg/0.bias' is not in the checkpoint"},
               {"lion to adamw", Lion{.lr = 1e-6}, adamw, false, "'exp_avg' of the checkpoint is another optimizer's"},
               {"rmsprop to adamw", RmsProp{.lr = 1e-6}, adamw, false, "is not in the checkpoint"},
               {"adamw to lion", adamw, Lion{.lr = kRate}, false, "'exp_avg' of the checkpoint is another optimizer's"},
               {"sgd to lars", Sgd{.lr = 1e-6}, Lars{.lr = kRate}, false, "'momentum_buffer' of the checkpoint is another"},
               {"lars to sgd", Lars{.lr = 1e-6}, Sgd{.lr = kRate}, false, "'momentum_buffer' of the checkpoint is another"},
               {"rmsprop to sgd", RmsProp{.lr = 1e-6, .momentum = 0.9}, Sgd{.lr = kRate}, false, "is another optimizer's"},
               {"muon to lars", Muon{.lr = 1e-6}, Lars{.lr = kRate}, false, "is another optimizer's"},
               {"adafactor to adamw", Adafactor{.lr = 1e-6}, adamw, false, "is not in the checkpoint"},
               {"adamw to lamb", adamw, Lamb{.lr = kRate}, true, ""},
               {"lamb to adamw", Lamb{.lr = 1e-6}, adamw, true, ""}};
  for (const auto& row : table) {
    SCOPED_TRACE(row.name);
    const TempFolder folder;
    const World world;
    Trainer before = trainer_of(world, row.from, {}, "");
    take_steps(before, world, kBefore, /*other=*/true);
    before.save(folder.file("a"));
    Trainer after = trainer_of(world, row.to, {}, ""), fresh = trainer_of(world, row.to, {}, "");
    const LoadReport report = after.load(folder.file("a"), {.strict = row.taken});
    std::string printed;
    for (const std::string& line : report.skipped) printed += line + "\n";
    EXPECT_NE(printed.find(row.printed), std::string::npos) << printed;
    EXPECT_EQ(report.skipped.empty(), row.taken) << printed;
    const bool strictly = test::refusal([&] { trainer_of(world, row.to, {}, "").load(folder.file("a")); }).empty();
    EXPECT_EQ(strictly, row.taken);
    after.save(folder.file("b"), {.replace = true});
    fresh.load_weights(folder.file("b"));
    take_steps(after, world, kAfter);
    take_steps(fresh, world, kAfter);
    const bool same = weights_of(after).at("1.weight").equal(weights_of(fresh).at("1.weight"));
    EXPECT_EQ(same, !row.taken);
  }
}

/// Checkpoints without ages come from runs in which all trained parameters were as old as the run.
TEST(OptimizerAge, OlderCheckpointsAreAsOldAsTheirRun) {
  const TempFolder folder;
  const World world;
  Trainer trainer = trainer_of(world, AdamW{.lr = kRate}, {}, "");
  take_steps(trainer, world, 2);
  trainer.save(folder.file("a"));
  CheckpointIndex index = read_checkpoint(*open_storage(folder.file("a")), "");
  const auto optimizer = make_optimizer(trainer.model(), AdamW{});
  const auto age_by = [&](const OptimizerOptions& options) {
    return TakenState(trainer.model(), *optimizer, options, index, {}).age_of(0, 17);
  };
  EXPECT_TRUE(TakenState(trainer.model(), *optimizer, AdamW{}, index, {}).takes_age("step/0.weight"));
  for (const char* name : {"step/0.weight", "step/0.bias", "step/1.weight", "step/1.bias"}) {
    ASSERT_EQ(index.tensors.erase(name), 1u);
  }
  EXPECT_FALSE(TakenState(trainer.model(), *optimizer, AdamW{}, index, {}).takes_age("step/0.weight"));
  EXPECT_EQ(age_by(AdamW{}), 17);
  index.tensors.erase("exp_avg_sq/0.weight");
  EXPECT_EQ(age_by(AdamW{}), 0) << "half of the state is none";
}

}  // namespace
}  // namespace weft::optimizer_age_test
