// Random layouts train as one device does: any mesh of pp x dp x shard x cp x tp on up to eight ranks, any schedule, level,
// recompute and offload. With reproducible slots to the bit, without, and with cp or tp, to the reference's tolerance.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/seeds.h"
#include "tests/train/jobs.h"
#include "weft/program/build/make_schedule.h"

namespace weft::random_layouts_test {
namespace {

constexpr unsigned kLayouts = test::cases(16);
constexpr int kSteps = 3;
constexpr int kSlots = 4;

using test::Random;

struct RandomRun {
  std::string job;
  int ranks = 1;
  Strategy strategy = {};
};

std::string text(const RandomRun& run) {
  const Strategy& s = run.strategy;
  const LayoutOptions& l = s.layout;
  return run.job + " on " + std::to_string(run.ranks) + " ranks, pp " + std::to_string(s.pp) + " " + l.pipeline.schedule +
         ", cp " + std::to_string(s.cp) + " " + std::string(kContextMethods.of(l.attention_over)) + ", tp " +
         std::to_string(s.tp) + (l.sequence_parallel ? " with sequences" : "") + ", spread " +
         std::to_string(static_cast<int>(s.spread)) + ", level " + std::string(name(l.shard_level)) + ", " +
         std::string(name(l.precision)) + ", micro-batches of " + std::to_string(s.micro_batch) + ", " +
         std::to_string(s.slots) + " slots, recompute " + std::to_string(l.recompute_every) +
         (l.recompute_parts ? " and attention" : "") + ", offload " + std::string(name(l.offload_optimizer)) + " " +
         std::string(name(l.offload_parameters)) + " " + std::string(name(l.offload_activations)) +
         (s.backend == BackendKind::gloo ? ", gloo" : "");
}

// First block of each stage.
std::vector<int> random_cut(Random& random, int blocks, int stages) {
  std::vector<int> first = {0};
  for (int s = 1; s < stages; ++s) {
    const int least = first.back() + 1, most = blocks - (stages - s);
    first.push_back(least + random.below(most - least + 1));
  }
  return first;
}

LayoutOptions random_layout(Random& random, const RandomRun& run) {
  LayoutOptions layout;
  const auto offload = [&] { return random.of<Offload>({Offload::none, Offload::none, Offload::host, Offload::disk}); };
  layout.shard_level = static_cast<ShardLevel>(random.below(4));
  const bool pooled = layout.shard_level == ShardLevel::parameters;
  layout.reshard_after_forward = random.one_in(2);
  layout.prefetch = random.below(4);
  layout.recompute_every = random.below(3);
  layout.recompute_parts = run.job.find("gpt") != std::string::npos && random.one_in(4);
  layout.offload_optimizer = offload();
  if (pooled) layout.offload_parameters = offload();
  if (layout.recompute_every > 0) layout.offload_activations = offload();
  return layout;
}

/// Splits inside the layers, of models that can be split so, as far as there are ranks.
void split_inside(Random& random, RandomRun& run) {
  Strategy& s = run.strategy;
  if (run.job.find("gpt") == std::string::npos || run.ranks > 4) return;
  s.tp = random.of<int>({1, 2});
  s.cp = run.ranks * s.tp <= 4 ? random.of<int>({1, 2}) : 1;
  s.layout.sequence_parallel = random.one_in(2);
  // Its two heads are one per rank of tp, which ranks of cp cannot share.
  s.layout.attention_over = s.tp == 1 ? static_cast<ContextMethod>(random.below(3)) : ContextMethod::ring;
  run.ranks *= s.tp * s.cp;
}

RandomRun random_run(Random& random) {
  RandomRun run{.job = random.of<std::string>({"deep_gpt", "deep_gpt", "deep_tied_gpt", "deep_modules", "deep_mixed"})};
  Strategy& s = run.strategy;
  s.pp = random.of<int>({1, 2, 2, 4});
  const int data = random.of<int>(s.pp == 4 ? std::vector<int>{1, 2} : std::vector<int>{1, 2, 4});
  run.ranks = s.pp * data;
  s.spread = data == 4 ? static_cast<Spread>(random.below(3)) : static_cast<Spread>(random.below(2));
  s.layout = random_layout(random, run);
  PipelineOptions& pipeline = s.layout.pipeline;
  static const std::vector<ScheduleKind> kinds = [] {
    std::vector<ScheduleKind> all(schedule_kinds().begin(), schedule_kinds().end());
    std::erase_if(all, [](const ScheduleKind& kind) { return !kind.make; });
    return all;
  }();
  const ScheduleKind kind = random.of(kinds);
  pipeline.schedule = kind.name;
  const bool has_chunks = kind.chunks != 1;
  if (s.pp > 1 && !has_chunks && random.one_in(2)) pipeline.first_block = random_cut(random, /*blocks=*/8, s.pp);
  s.micro_batch = 16 / data / 2 >= s.pp && random.one_in(2) ? 2 : 1;
  const bool ties_stages = run.job == "deep_tied_gpt" && s.pp > 1;
  // Both stages that hold them on one rank, whose slots would mix: refused.
  const bool mixes_slots = ties_stages && pipeline.schedule == "zb-v" && data < kSlots;
  const bool has_reference = run.job != "deep_modules";  // of modules of torch's own only the bits of one device are known
  split_inside(random, run);
  s.slots = s.tp * s.cp == 1 && !mixes_slots && (!has_reference || !random.one_in(4)) ? kSlots : 0;
  if (s.slots > 0 && random.one_in(3)) s.layout.precision = Precision::bf16;
  s.clip = random.one_in(2) ? 0.5 : 0.0;
  s.noise_scale = s.cp == 1 && !ties_stages && random.one_in(3);
  s.bucket_bytes = random.one_in(2) ? 1 << 10 : 25 << 20;
  if (random.one_in(5)) s.backend = BackendKind::gloo;
  return run;
}

/// The run on one device with the same micro-batch, slots, clipping and dtypes.
const Trained& one_device(const RandomRun& run) {
  static std::map<std::string, Trained> trained;
  const Strategy& s = run.strategy;
  const Strategy alone{.name = "one",
                       .micro_batch = s.micro_batch,
                       .slots = s.slots,
                       .clip = s.clip,
                       .noise_scale = s.noise_scale,
                       .layout = {.precision = s.layout.precision}};
  const std::string key = run.job + std::to_string(s.micro_batch) + std::to_string(s.clip) + std::to_string(s.noise_scale) +
                          std::string(name(s.layout.precision));
  const auto [entry, is_new] = trained.try_emplace(key);
  if (is_new) entry->second = train_ranks(job(run.job), alone, 1, AdamW{}, kSteps);
  return entry->second;
}

TEST(RandomLayouts, TrainAsOneDeviceDoes) {
  for (const unsigned seed : test::seeds(kLayouts)) {
    Random random(seed);
    const RandomRun run = random_run(random);
    SCOPED_TRACE(test::replay(seed) + ": " + text(run));
    if (run.strategy.slots == 0) {
      expect_parity(job(run.job), run.strategy, run.ranks, kSteps);
    } else {
      expect_equal(train_ranks(job(run.job), run.strategy, run.ranks, AdamW{}, kSteps), one_device(run), "against one device");
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft::random_layouts_test
