// The two trainings of a kind: LibTorch's plain loop, and weft's.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>

#include "tests/support/run_ranks.h"
#include "tests/train/reference.h"
#include "tests/train/trainer/module_kinds/kinds.h"
#include "weft/base/error.h"
#include "weft/nn/modules/module_block.h"
#include "weft/train/trainer/trainer.h"

namespace weft::module_kinds {
namespace {

constexpr int64_t kBatch = 4, kMicroBatch = 2, kWidth = 6, kOutputs = 4, kIds = 8;
constexpr int kSteps = 3, kStepsToEvaluate = 2;
constexpr int64_t kSet = -1;  ///< the step whose samples are the evaluation's
// Powers of two: whatever order LibTorch multiplies and adds in, the update rounds once.
constexpr double kRate = 0.125, kMomentum = 0.5;

using Module = std::shared_ptr<torch::nn::Module>;

Batch samples_of(int64_t step) {
  const auto generator = [step](uint64_t key) {
    return at::detail::createCPUGenerator(static_cast<uint64_t>(step + 2) * 8 + key);
  };
  return {.inputs = {at::randn({kBatch, kWidth}, generator(1), at::kFloat),
                     at::randint(kIds, {kBatch, 4}, generator(2), at::kLong)},
          .target = at::randn({kBatch, kOutputs}, generator(3), at::kFloat)};
}

class EvaluationSamples final : public Dataset {
 public:
  int64_t size() const override { return kBatch; }
  Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    return slice(samples_of(kSet), indices.front(), static_cast<int64_t>(indices.size()));
  }
};

/// Parameters by their order, not from LibTorch's generator, which ranks that are threads share.
void fill(torch::nn::Module& module, uint64_t seed) {
  const c10::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(seed);
  for (at::Tensor& parameter : module.parameters()) parameter.uniform_(-0.5, 0.5, generator);
}

/// Linear layers whose outputs have the shapes that the kind takes. Ids pass by.
Part stem_of(const Kind& kind) {
  auto module = std::make_shared<torch::nn::Module>("stem");
  std::vector<torch::nn::Linear> layers;
  for (const auto& shape : kind.takes) {
    const int64_t numel = c10::multiply_integers(shape);
    layers.push_back(module->register_module(fmt::format("{}", layers.size()), torch::nn::Linear(kWidth, numel)));
  }
  return {module, [layers, takes = kind.takes](const Tensors& inputs) mutable -> Tensors {
            Tensors outputs;
            for (size_t i = 0; i < layers.size(); ++i) {
              std::vector<int64_t> shape = {inputs[0].size(0)};
              shape.insert(shape.end(), takes[i].begin(), takes[i].end());
              outputs.push_back(layers[i]->forward(inputs[0]).view(shape));
            }
            outputs.push_back(inputs[1]);
            return outputs;
          }};
}

/// Numbers per sample in each tensor of a batch: those of the head's layers.
Tensors rows_of(const Tensors& inputs) {
  Tensors rows;
  for (const at::Tensor& input : inputs) {
    if (input.is_floating_point()) rows.push_back(input.reshape({input.size(0), -1}));
  }
  return rows;
}

/// A linear layer for each tensor, their outputs added up.
Part head_of(const Part& stem, const Part& part) {
  const c10::NoGradGuard no_grad;
  auto module = std::make_shared<torch::nn::Module>("head");
  std::vector<torch::nn::Linear> layers;
  for (const at::Tensor& row : rows_of(part.forward(stem.forward(slice(samples_of(kSet), 0, 2).inputs)))) {
    layers.push_back(module->register_module(fmt::format("{}", layers.size()), torch::nn::Linear(row.size(1), kOutputs)));
  }
  return {module, [layers](const Tensors& inputs) mutable -> Tensors {
            const Tensors rows = rows_of(inputs);
            at::Tensor sum = layers[0]->forward(rows[0]);
            for (size_t i = 1; i < rows.size(); ++i) sum = sum + layers[i]->forward(rows[i]);
            return {sum};
          }};
}

/// Stem, kind, head, with values.
std::vector<Part> parts_of(const Kind& kind) {
  std::vector<Part> parts = {stem_of(kind), kind.make()};
  fill(*parts[0].module, 1);
  fill(*parts[1].module, 2);
  parts.push_back(head_of(parts[0], parts[1]));
  fill(*parts[2].module, 3);
  return parts;
}

constexpr const char* kPrefixes[] = {"stem", "kind", "head"};

at::Generator generator() { return at::detail::getDefaultCPUGenerator(); }

bool is_running(const std::string& name) { return name.substr(name.rfind('.') + 1).starts_with("running_"); }

/// BatchNorm's count of forwards, which is one of steps in weft, whatever micro-batches they are made of.
bool is_count(const std::string& name) { return name.ends_with(".num_batches_tracked"); }

/// LibTorch's loop.
class PlainLoop {
 public:
  PlainLoop(const Kind& kind, bool bf16, const Draws& draws) : kind_(kind), bf16_(bf16), draws_(draws), parts_(parts_of(kind)) {
    for (size_t i = 0; i < parts_.size(); ++i) take(kPrefixes[i], *parts_[i].module);
    optimizer_ = std::make_unique<torch::optim::SGD>(masters_, torch::optim::SGDOptions(kRate).momentum(kMomentum));
  }

  Outcome run() {
    Outcome outcome;
    for (int step = 0; step < kSteps; ++step) {
      if (step == kStepsToEvaluate) outcome.evaluation = evaluate();
      if (kind_.draws_always) outcome.evaluation = std::nan("");
      outcome.losses.push_back(train(samples_of(step)));
    }
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < names_.size(); ++i) outcome.values.emplace_back(names_[i], masters_[i].detach().clone());
    for (auto& [name, statistic] : statistics_) outcome.values.emplace_back(name, statistic.clone());
    for (auto& [count, forwards] : counts_) count.add_(forwards.sub(count).floor_divide(kBatch / kMicroBatch));
    for (auto& [name, constant] : constants_) outcome.values.emplace_back(name, constant);
    std::sort(outcome.values.begin(), outcome.values.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return outcome;
  }

 private:
  void take(const std::string& prefix, torch::nn::Module& module) {
    const c10::NoGradGuard no_grad;
    for (auto& entry : module.named_parameters()) {
      names_.push_back(prefix + "." + entry.key());
      at::Tensor& value = entry.value();
      masters_.push_back(bf16_ ? value.detach().clone() : value);
      if (bf16_) value.set_data(value.to(at::kBFloat16));
      parameters_.push_back(value);
    }
    for (auto& entry : module.named_buffers()) {
      const at::Tensor& value = entry.value();
      const std::string name = prefix + "." + entry.key();
      if (!value.defined()) continue;
      if (is_running(name)) {
        statistics_.emplace_back(name, value);
      } else {
        constants_.emplace_back(name, value.clone());
        if (is_count(name)) counts_.emplace_back(constants_.back().second, value);
      }
    }
  }

  double loss_of(const Batch& batch, bool training) {
    for (Part& part : parts_) part.module->train(training);
    Tensors values = batch.inputs;
    if (bf16_) values[0] = values[0].to(at::kBFloat16);
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (i == 1 && training && !draws_.empty()) generator().set_state(draws_.at(static_cast<size_t>(drawn_++)));
      values = parts_[i].forward(values);
    }
    for (at::Tensor& value : values) value = value.to(at::kFloat);
    const LossValue loss = kind_.loss(values, batch.target);
    if (training) loss.sum.div(static_cast<double>(loss.count * kBatch / kMicroBatch)).backward();
    count_ += static_cast<double>(loss.count);
    return loss.sum.item<double>();
  }

  double evaluate() {
    const c10::NoGradGuard no_grad;
    double sum = count_ = 0.0;
    for (int64_t first = 0; first < kBatch; first += kMicroBatch) {
      sum += loss_of(slice(samples_of(kSet), first, kMicroBatch), false);
    }
    return sum / count_;
  }

  /// Each micro-batch begins with the step's statistics; their mean change counts (docs/library.md).
  double train(const Batch& batch) {
    optimizer_->zero_grad();
    double sum = count_ = 0.0;
    std::vector<at::Tensor> before, change;
    for (auto& [name, statistic] : statistics_) before.push_back(statistic.clone());
    for (const at::Tensor& value : before) change.push_back(at::zeros_like(value));
    for (int64_t first = 0; first < kBatch; first += kMicroBatch) {
      sum += loss_of(slice(batch, first, kMicroBatch), true);
      const c10::NoGradGuard no_grad;
      for (size_t i = 0; i < before.size(); ++i) {
        change[i].add_(statistics_[i].second.sub(before[i]));
        statistics_[i].second.copy_(before[i]);
      }
      if (bf16_) widen_gradients();
    }
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < before.size(); ++i) statistics_[i].second.add_(change[i].div(kBatch / kMicroBatch));
    optimizer_->step();
    for (size_t i = 0; i < masters_.size() && bf16_; ++i) parameters_[i].data().copy_(masters_[i]);
    return sum / count_;
  }

  /// Adds what one micro-batch gave to the float32 gradients.
  void widen_gradients() {
    for (size_t i = 0; i < masters_.size(); ++i) {
      at::Tensor& own = parameters_[i].mutable_grad();
      if (!own.defined()) continue;
      at::Tensor& sum = masters_[i].mutable_grad();
      sum = sum.defined() ? sum.add(own.to(at::kFloat)) : own.to(at::kFloat);
      own.reset();
    }
  }

  const Kind& kind_;
  bool bf16_;
  const Draws& draws_;
  std::vector<Part> parts_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_, masters_;
  std::vector<std::pair<std::string, at::Tensor>> statistics_;
  std::vector<std::pair<std::string, at::Tensor>> constants_;  ///< other buffers, as they are in the end
  std::vector<std::pair<at::Tensor, at::Tensor>> counts_;      ///< as declared, and as left by forwards
  std::unique_ptr<torch::optim::SGD> optimizer_;
  double count_ = 0.0;
  int drawn_ = 0;
};

Model model_of(const Kind& kind, Draws* draws) {
  std::vector<Part> parts = parts_of(kind);
  if (draws) {
    parts[1].forward = [draws, module = parts[1].module, forward = parts[1].forward](const Tensors& inputs) {
      if (module->is_training() && !inputs[0].is_meta()) draws->push_back(generator().get_state());
      return forward(inputs);
    };
  }
  Model model{.name = kind.name, .loss = kind.loss};
  for (size_t i = 0; i < parts.size(); ++i) {
    model.blocks.push_back({kPrefixes[i], kPrefixes[i], module_block(kPrefixes[i], parts[i].module, parts[i].forward)});
  }
  return model;
}

TrainerOptions options_of(const Layout& layout) {
  TrainerOptions options{.global_batch = kBatch, .micro_batch = kMicroBatch, .reproducible_slots = 2};
  if (layout.shard) options.layout.shard_level = ShardLevel::parameters;
  if (layout.recompute) options.layout.recompute_every = 1;
  if (layout.bf16) options.layout.precision = Precision::bf16;
  if (layout.pp > 1) options.layout.pipeline.first_block = {0, layout.cut};
  return options;
}

Outcome train_rank_or_throw(const Kind& kind, const Layout& layout, const World& world, Draws* draws) {
  const int data = layout.ranks / layout.pp;
  const Mesh mesh(world, {{"pp", layout.pp}, {layout.shard ? "shard" : "dp", data}});
  const int64_t place = world.rank() % data, share = kBatch / data;
  Trainer trainer(mesh, model_of(kind, draws), Sgd{.lr = kRate, .momentum = kMomentum, .weight_decay = 0.0},
                  options_of(layout));
  if (!layout.load.empty()) trainer.load(layout.load);
  Outcome outcome;
  for (auto step = trainer.steps_done(); step < kSteps; ++step) {
    if (step == kStepsToEvaluate) {
      EvaluationLoader loader(std::make_shared<EvaluationSamples>(), kMicroBatch, static_cast<int>(place), data);
      outcome.evaluation = trainer.evaluate(loader).loss;
      if (kind.draws_always) outcome.evaluation = std::nan("");
    }
    outcome.losses.push_back(trainer.step(slice(samples_of(step), place * share, share)).loss);
    if (step == 0 && !layout.save.empty()) trainer.save(layout.save);
  }
  trainer.for_each_weight(
      [&](const std::string& name, const at::Tensor& value) { outcome.values.emplace_back(name, value.clone()); });
  return outcome;
}

std::string difference_of(double actual, double expected, double tolerance) {
  const double largest = std::max(std::abs(expected), 1.0);
  if (actual == expected || (tolerance > 0.0 && std::abs(actual - expected) <= tolerance * largest)) return {};
  return fmt::format(" {:.9g} for {:.9g}", actual, expected);
}

std::string difference_of(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  if (actual.sizes() != expected.sizes()) return " of another shape";
  if (at::equal(actual, expected)) return {};
  const double most = actual.sub(expected).abs().max().item<double>(), largest = expected.abs().max().item<double>();
  if (tolerance > 0.0 && most <= tolerance * std::max(largest, 0.5)) return {};
  return fmt::format(" by {:.3g} of {:.3g}", most, largest);
}

}  // namespace

LossValue squares(const Tensors& outputs, const at::Tensor& target) {
  return {outputs.front().sub(target).square().sum(), target.numel()};
}

Outcome train_plainly(const Kind& kind, bool bf16, const Draws& draws) {
  try {
    return PlainLoop(kind, bf16, draws).run();
  } catch (const c10::Error& error) {
    return {.error = error.what_without_backtrace()};
  }
}

Outcome train_rank(const Kind& kind, const Layout& layout, const World& world, Draws* draws) {
  try {
    return train_rank_or_throw(kind, layout, world, draws);
  } catch (const Error& error) {
    return {.error = error.what()};
  }
}

Outcome train_threads(const Kind& kind, const Layout& layout, Draws* draws) {
  if (layout.ranks == 1) return train_rank(kind, layout, World(), draws);
  Outcome outcome;
  test::run_ranks(layout.ranks, [&](const World& world) {
    Outcome own = train_rank(kind, layout, world, nullptr);
    if (world.rank() == 0) outcome = std::move(own);
  });
  return outcome;
}

std::string difference(const Outcome& actual, const Outcome& expected, double tolerance) {
  if (actual.error != expected.error) return fmt::format("error '{}' for '{}'", actual.error, expected.error);
  std::string text;
  // A training that was resumed has the last steps' losses.
  const size_t more = expected.losses.size() - actual.losses.size();
  for (size_t i = 0; i < actual.losses.size(); ++i) {
    const std::string loss = difference_of(actual.losses[i], expected.losses[more + i], tolerance);
    if (!loss.empty()) text += fmt::format("loss of step {}{}; ", more + i + 1, loss);
  }
  const std::string evaluation =
      std::isnan(expected.evaluation) ? "" : difference_of(actual.evaluation, expected.evaluation, tolerance);
  if (!evaluation.empty()) text += fmt::format("evaluation{}; ", evaluation);
  if (actual.values.size() != expected.values.size()) return text + "other tensors";
  for (size_t i = 0; i < actual.values.size(); ++i) {
    const auto& [name, value] = actual.values[i];
    if (name != expected.values[i].first) return text + fmt::format("{} for {}", name, expected.values[i].first);
    const std::string own = difference_of(value, expected.values[i].second, tolerance);
    if (!own.empty()) text += fmt::format("{}{}; ", name, own);
  }
  return text;
}

}  // namespace weft::module_kinds
