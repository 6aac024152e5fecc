#include "tests/train/jobs.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <optional>
#include <stdexcept>

#include "tests/support/run_ranks.h"
#include "tests/support/seeds.h"
#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/models/vision.h"
#include "weft/nn/modules/module_block.h"
#include "weft/nn/operators_path.h"

namespace weft {

namespace {

at::Tensor random_labels(int64_t step, at::IntArrayRef sizes, int64_t classes) {
  return at::randint(classes, sizes, at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 7), at::kLong);
}

Batch image_batch(int64_t step, int64_t batch = kGlobalBatch) {
  const at::Tensor images =
      at::randn({batch, 1, 12, 12}, at::detail::createCPUGenerator(static_cast<uint64_t>(step)), at::kFloat);
  return {{images}, random_labels(step, {batch}, 10), step * batch};
}

/// Some targets do not count, unevenly over the ranks: a mean of means would show.
Batch token_batch(int64_t step, int64_t batch = kGlobalBatch) {
  const at::Tensor tokens = random_labels(step, {batch, 9}, 13);
  at::Tensor target = tokens.narrow(1, 1, 8).clone();
  target.narrow(0, 0, 3).narrow(1, 2, 6).fill_(kIgnore);
  return {{tokens.narrow(1, 0, 8).contiguous()}, target, step * batch};
}

/// Documents side by side, by chance one alone, and padding behind them in some samples.
Batch packed_batch(int64_t step, int64_t batch = 16) {
  constexpr int64_t kContext = 12;
  Batch all{{random_labels(step, {batch, kContext}, 13), at::zeros({batch, kContext}, at::kLong)},
            random_labels(step + 1, {batch, kContext}, 13),
            step * batch};
  test::Random random(static_cast<unsigned>(step) + 1);
  for (int64_t sample = 0; sample < batch; ++sample) {
    int64_t left = kContext;
    while (left > 0) {
      const int64_t length = random.one_in(4) ? left : 1 + random.below(static_cast<int>(left));
      const auto part = [&](const at::Tensor& x) { return x[sample].narrow(0, kContext - left, length); };
      part(all.inputs[1]).copy_(at::arange(length, at::kLong));
      if (length == left && random.one_in(2)) part(all.target).fill_(kIgnore);
      left -= length;
    }
  }
  return all;
}

GptOptions small_gpt(bool tied, int64_t layers = 2) {
  return {.layers = layers, .heads = 2, .width = 16, .context = 8, .vocabulary = 13, .tied_embeddings = tied, .dropout = 0.1};
}

LlamaOptions small_llama(int64_t layers = 2) {
  return {.layers = layers, .heads = 4, .kv_heads = 2, .width = 16, .ffn = 24, .context = 8, .vocabulary = 13};
}

int data_ranks(const Strategy& s, int world) { return world / (s.pp * s.cp * s.tp); }

Mesh mesh_of(const World& world, const Strategy& s) {
  const int ranks = data_ranks(s, world.size());
  if (s.spread == Spread::hybrid) {
    return Mesh(world, {{"pp", s.pp}, {"dp", 2}, {"shard", ranks / 2}, {"cp", s.cp}, {"tp", s.tp}});
  }
  return Mesh(world, {{"pp", s.pp}, {s.spread == Spread::dp ? "dp" : "shard", ranks}, {"cp", s.cp}, {"tp", s.tp}});
}

/// Modules of torch's own, whose backward weft cannot split, and whose first values are given. They are not drawn by torch: its
/// one generator would mix them up between ranks that are threads.
Model modules() {
  torch::nn::Sequential layers;
  layers->push_back(torch::nn::Flatten());
  for (int i = 0; i < 8; ++i) {
    layers->push_back(torch::nn::Linear(i == 0 ? 144 : 12, i == 7 ? 10 : 12));
    layers->push_back(torch::nn::Tanh());
  }
  const c10::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(3);
  for (at::Tensor& parameter : layers->parameters()) parameter.uniform_(-0.3, 0.3, generator);
  return sequential_model("modules", layers);
}

/// A block of weft's own that does not declare that its backward can be split.
class Unsplit : public Block {
 public:
  explicit Unsplit(std::shared_ptr<Block> block) : block_(std::move(block)) {}
  Tensors forward(const Tensors& inputs, const Context& context) override { return block_->forward(inputs, context); }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }

 private:
  std::shared_ptr<Block> block_;
};

/// Every stage has both blocks that can be split and some that cannot.
Model mixed() {
  Model model = mlp({.inputs = 144, .width = 24, .layers = 7});
  for (size_t b = 1; b < model.blocks.size(); b += 2) model.blocks[b].block = std::make_shared<Unsplit>(model.blocks[b].block);
  return model;
}

const at::Tensor& find(const std::vector<std::pair<std::string, at::Tensor>>& values, const std::string& name) {
  for (const auto& [other, value] : values) {
    if (other == name) return value;
  }
  throw std::runtime_error("no parameter " + name);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Job& job) { return out << job.name; }
std::ostream& operator<<(std::ostream& out, const Strategy& s) { return out << s.name; }

const std::vector<Job>& jobs() {
  static const std::vector<Job> all = {
      {"gpt", [] { return gpt(small_gpt(false)); }, [](int64_t step) { return token_batch(step); }},
      {"cnn", [] { return cnn({.size = 12, .width = 4}); }, [](int64_t step) { return image_batch(step); }},
      {"mlp", [] { return mlp({.inputs = 144, .width = 24, .layers = 2}); }, [](int64_t step) { return image_batch(step); }},
      {"tied_gpt", [] { return gpt(small_gpt(true)); }, [](int64_t step) { return token_batch(step); }},
      {"llama", [] { return llama(small_llama()); }, [](int64_t step) { return token_batch(step); }},
  };
  return all;
}

const std::vector<Job>& deep_jobs() {
  static const std::vector<Job> all = {
      {"deep_gpt", [] { return gpt(small_gpt(false, 6)); }, [](int64_t step) { return token_batch(step, 16); }, 16},
      {"deep_tied_gpt", [] { return gpt(small_gpt(true, 6)); }, [](int64_t step) { return token_batch(step, 16); }, 16},
      {"deep_modules", modules, [](int64_t step) { return image_batch(step, 16); }, 16},
      {"deep_mixed", mixed, [](int64_t step) { return image_batch(step, 16); }, 16},
      {"deep_llama", [] { return llama(small_llama(6)); }, [](int64_t step) { return token_batch(step, 16); }, 16},
  };
  return all;
}

const std::vector<Job>& wide_jobs() {
  static const std::vector<Job> all = {
      {"wide_mlp", [] { return mlp({.inputs = 144, .width = 512, .layers = 3}); },
       [](int64_t step) { return image_batch(step, 32); }, 32},
  };
  return all;
}

const std::vector<Job>& split_jobs() {
  const auto batch_of = [](int64_t step) { return token_batch(step, 16); };
  static const std::vector<Job> all = {
      {"split_gpt", [] { return gpt({.layers = 2, .heads = 4, .width = 32, .context = 8, .vocabulary = 13, .dropout = 0.1}); },
       batch_of, 16},
      {"split_llama",
       [] { return llama({.layers = 2, .heads = 8, .kv_heads = 4, .width = 32, .ffn = 48, .context = 8, .vocabulary = 13}); },
       batch_of, 16},
  };
  return all;
}

const std::vector<Job>& packed_jobs() {
  const auto batch_of = [](int64_t step) { return packed_batch(step); };
  static const std::vector<Job> all = {
      {"packed_gpt",
       [] { return gpt({.layers = 6, .heads = 4, .width = 32, .context = 12, .vocabulary = 13, .dropout = 0.1}); }, batch_of,
       16},
      {"packed_llama",
       [] { return llama({.layers = 6, .heads = 8, .kv_heads = 4, .width = 32, .ffn = 48, .context = 12, .vocabulary = 13}); },
       batch_of, 16},
  };
  return all;
}

const Job& job(const std::string& name) {
  for (const auto* all : {&jobs(), &deep_jobs(), &wide_jobs(), &split_jobs(), &packed_jobs()}) {
    for (const Job& job : *all) {
      if (job.name == name) return job;
    }
  }
  throw std::runtime_error("no job " + name);
}

Sgd sgd_of(const Strategy& s) { return {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = s.nesterov}; }

int64_t micro_batch_of(const Job& job, const Strategy& s, int world) {
  return s.micro_batch ? s.micro_batch : job.global_batch / data_ranks(s, world);
}

int64_t few_micro_batches(const Job& job) { return job.global_batch == 16 ? 2 : job.global_batch / 4; }

namespace {

/// Start and end of a run, and the checkpoints it loads and saves.
struct Leg {
  int first = 0;
  int last = 0;
  int steps = 0;  ///< of the whole run
  std::string load = {};
  std::string save = {};
  bool in_background = false;
};

/// Weights are read once more after it: they have come back.
void take_averages(Trainer& trainer, Trained& result) {
  trainer.with_average([&] {
    trainer.for_each_weight(
        [&](const std::string& name, const at::Tensor& value) { result.averages.emplace_back(name, value.cpu().clone()); });
  });
  size_t i = 0;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) {
    EXPECT_TRUE(at::equal(result.values[i++].second, value.cpu())) << name << " after an average has stood in for it";
  });
}

/// Samples [begin, begin + count) of the run, which lie in one of the job's batches.
Batch batch_at(const Job& job, int64_t begin, int64_t count) {
  return slice(job.batch_of(begin / job.global_batch), begin % job.global_batch, count);
}

Batch pinned(Batch batch) {
  for (at::Tensor& input : batch.inputs) input = input.pin_memory();
  batch.target = batch.target.pin_memory();
  return batch;
}

Batch on(at::Device device, Batch batch) {
  for (at::Tensor& input : batch.inputs) input = input.to(device);
  batch.target = batch.target.to(device);
  return batch;
}

Trained train_leg(const Job& job, const Strategy& s, int ranks, const OptimizerOptions& optimizer, const Leg& span) {
  std::vector<Trained> results(static_cast<size_t>(ranks));
  test::run_ranks(ranks, [&](World world) {
    std::optional<ForcedOperators> operators;
    if (s.operators) operators.emplace();
    const at::Device device = s.device ? s.device(world.rank()) : at::Device(at::kCPU);
    const c10::DeviceGuard current(device);
    const Mesh mesh = mesh_of(world, s);
    const int data_ranks = weft::data_ranks(s, ranks), data_rank = world.rank() / (s.cp * s.tp) % data_ranks;
    Trainer trainer(mesh, job.model(), optimizer,
                    {.global_batch = job.global_batch,
                     .ramp = s.ramp,
                     .micro_batch = micro_batch_of(job, s, ranks),
                     .learning_rate = {.peak = s.learning_rate, .steps = span.steps, .decay = s.decay},
                     .parameters = s.parameters,
                     .average = s.average,
                     .clip = s.clip,
                     .reproducible_slots = s.slots,
                     .reproducible_tp = s.reproducible_tp,
                     .noise_scale = s.noise_scale,
                     .bucket_bytes = s.bucket_bytes,
                     .layout = s.layout,
                     .graph = s.graph,
                     .float32_rates = s.float32_rates,
                     .audit_every = s.audit_every,
                     .communication = {.backend = s.backend, .device = device}});
    Trained& mine = results[static_cast<size_t>(world.rank())];
    if (!span.load.empty()) {
      EXPECT_EQ(trainer.load(span.load).step, span.first);
    }
    for (int step = span.first; step < span.last; ++step) {
      const int64_t share = trainer.global_batch() / data_ranks;
      StepResult result;
      const auto run = [&] {
        Batch batch = batch_at(job, trainer.samples_done() + data_rank * share, share);
        if (s.pinned) batch = pinned(std::move(batch));
        if (s.there) batch = on(device, std::move(batch));
        if (s.steps_only) return trainer.submit(batch);
        result = trainer.step(batch);
      };
      s.around ? s.around(world.rank(), step, run) : run();
      const AuditReport* audit = trainer.last_audit();
      if (s.audit_every == 1 && (!audit || audit->step != step + 1)) ADD_FAILURE() << "step " << step + 1 << " was not audited";
      if (audit && !audit->findings.empty()) ADD_FAILURE() << audit->findings.front().text;
      mine.losses.push_back(result.loss);
      mine.norms.push_back(result.norm);
      mine.small_squares.push_back(result.small_squares);
      if (span.in_background && !span.save.empty()) trainer.save_in_background(span.save, {.replace = true});
    }
    if (s.steps_only) return;
    if (span.in_background) trainer.finish_save();
    if (!span.in_background && !span.save.empty()) trainer.save(span.save);
    trainer.for_each_weight(
        [&](const std::string& name, const at::Tensor& value) { mine.values.emplace_back(name, value.cpu().clone()); });
    if (s.average.is_kept()) take_averages(trainer, mine);
  });
  for (const Trained& other : results) expect_equal(other, results[0], "a rank that drifts apart");
  return results[0];
}

}  // namespace

Trained train_ranks(const Job& job, const Strategy& s, int ranks, const OptimizerOptions& optimizer, int steps) {
  return train_leg(job, s, ranks, optimizer, {.last = steps, .steps = steps});
}

Trained train_in_stretches(const Job& job, const std::vector<Stretch>& stretches, const OptimizerOptions& optimizer,
                           const std::string& folder, bool in_background) {
  Trained all;
  Leg span{.steps = stretches.back().until, .in_background = in_background};
  for (const Stretch& stretch : stretches) {
    span.last = stretch.until;
    span.save = &stretch == &stretches.back() ? "" : folder + "/step-" + std::to_string(stretch.until);
    Trained part = train_leg(job, stretch.strategy, stretch.ranks, optimizer, span);
    all.losses.insert(all.losses.end(), part.losses.begin(), part.losses.end());
    all.norms.insert(all.norms.end(), part.norms.begin(), part.norms.end());
    all.values = std::move(part.values);
    all.averages = std::move(part.averages);
    span.first = span.last;
    span.load = span.save;
  }
  return all;
}

void expect_parity(const Job& job, const Strategy& strategy, int ranks, int steps) {
  const BatchSizes sizes(job.global_batch, strategy.ramp);
  const auto batch_of = [&](int64_t step) { return batch_at(job, sizes.samples_before(step), sizes.at(step)); };
  const Trained expected = train_reference(job.model, batch_of,
                                           {.global_batch = job.global_batch,
                                            .ramp = strategy.ramp,
                                            .micro_batch = micro_batch_of(job, strategy, ranks),
                                            .steps = steps,
                                            .clip = strategy.clip,
                                            .sgd = sgd_of(strategy),
                                            .average = strategy.average});
  const Trained actual = train_ranks(job, strategy, ranks, sgd_of(strategy), steps);
  for (int step = 0; step < steps; ++step) EXPECT_NEAR(actual.losses[step], expected.losses[step], 2e-5) << "step " << step;
  for (const auto values : {&Trained::values, &Trained::averages}) {
    ASSERT_EQ((actual.*values).size(), (expected.*values).size());
    for (const auto& [name, value] : expected.*values) {
      EXPECT_TRUE(at::allclose(find(actual.*values, name), value, 1e-4, 2e-6))
          << name << ": largest difference " << find(actual.*values, name).sub(value).abs().max().item<double>();
    }
  }
}

void expect_close(const Trained& actual, const Trained& expected, double tolerance, bool values) {
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], tolerance * expected.losses[step]) << "loss of step " << step;
  }
  for (size_t step = 0; step < expected.norms.size(); ++step) {
    EXPECT_NEAR(actual.norms[step], expected.norms[step], tolerance * expected.norms[step]) << "norm of step " << step;
  }
  if (!values) return;
  for (const auto of : {&Trained::values, &Trained::averages}) {
    ASSERT_EQ((actual.*of).size(), (expected.*of).size());
    for (const auto& [name, value] : expected.*of) {
      const double largest = value.abs().max().item<double>();
      EXPECT_LE(find(actual.*of, name).sub(value).abs().max().item<double>(), tolerance * largest) << name;
    }
  }
}

void expect_equal(const Trained& actual, const Trained& expected, const std::string& what) {
  EXPECT_EQ(actual.losses, expected.losses) << what;
  for (const auto values : {&Trained::values, &Trained::averages}) {
    ASSERT_EQ((actual.*values).size(), (expected.*values).size()) << what;
    for (const auto& [name, value] : expected.*values)
      EXPECT_TRUE(at::equal(find(actual.*values, name), value)) << what << ": " << name;
  }
}

}  // namespace weft
