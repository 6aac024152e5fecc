// Runs that are stopped and resumed elsewhere: the same losses in every step and bitwise the same weights as without a stop, in
// other layouts and at other sizes each time (laws 2 and 8).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/data/temp_folder.h"
#include "tests/train/jobs.h"

namespace weft::resume_test {
namespace {

constexpr int kSteps = 8;
constexpr int kStops[] = {2, 4, 6};

/// A layout that a run goes through.
struct Place {
  const char* name;
  int ranks = 1;
  Strategy strategy = {};
};

LayoutOptions sharded(ShardLevel level) { return {.shard_level = level}; }

LayoutOptions pipeline(const char* schedule, ShardLevel level = ShardLevel::none) {
  LayoutOptions layout = sharded(level);
  layout.pipeline.schedule = schedule;
  return layout;
}

LayoutOptions offloaded(Offload where) {
  return {.shard_level = ShardLevel::parameters,
          .recompute_every = 1,
          .offload_optimizer = where,
          .offload_parameters = where,
          .offload_activations = where};
}

using Places = std::vector<Place>;

const Places& of_data() {
  static const Places all = {
      {"one", 1},
      {"dp4", 4},
      {"dp2_accumulating", 2},
      {"hybrid_parameters", 4, {.spread = Spread::hybrid, .layout = sharded(ShardLevel::parameters)}},
      {"disk", 2, {.spread = Spread::shard, .layout = offloaded(Offload::disk)}},
      {"host", 1, {.spread = Spread::shard, .layout = offloaded(Offload::host)}},
      {"master4", 4, {.pp = 4, .layout = {.master = true}}},
      {"gloo_optimizer", 2, {.backend = BackendKind::gloo, .spread = Spread::shard, .layout = sharded(ShardLevel::optimizer)}},
  };
  return all;
}

Places with_pipelines() {
  Places all = of_data();
  all.insert(all.begin() + 2,
             {"pp2_zbh1_shard2", 4, {.spread = Spread::shard, .pp = 2, .layout = pipeline("zb-h1", ShardLevel::gradients)}});
  all.insert(all.begin() + 5, {"pp4_1f1b", 4, {.pp = 4, .layout = pipeline("1f1b")}});
  return all;
}

Places with_tensor_parallel() {
  return {{"one", 1},
          {"tp2", 2, {.tp = 2}},
          {"tp4", 4, {.tp = 4}},
          {"tp2_shard2", 4, {.spread = Spread::shard, .tp = 2, .layout = sharded(ShardLevel::parameters)}},
          {"dp2", 2}};
}

/// The training, and where it may resume with the same bits: a gpt with tied embeddings sums their gradients in another order
/// on another number of stages; fp16's scale depends on when a rank overflows.
struct Work {
  const char* name;
  const char* job;
  Places places;
  size_t journeys = 1;  ///< each begins at another place
  Precision precision = Precision::fp32;
  int reproducible_tp = 0;
  bool stays = false;  ///< where it is
};

const std::vector<Work>& works() {
  static const std::vector<Work> all = {
      {"gpt", "deep_gpt", with_pipelines(), 9},
      {"gpt_bf16", "deep_gpt", with_pipelines(), 5, Precision::bf16},
      {"tied_gpt", "tied_gpt", of_data(), 3},
      {"cnn", "cnn", of_data(), 3},
      {"gpt_tp", "split_gpt", with_tensor_parallel(), 4, Precision::fp32, 4},
      {"gpt_fp16", "gpt", {of_data()[0], of_data()[2], of_data()[4]}, 3, Precision::fp16, 0, true},
  };
  return all;
}

Strategy strategy_of(const Place& place, const Work& work) {
  Strategy strategy = place.strategy;
  strategy.name = place.name;
  strategy.micro_batch = few_micro_batches(job(work.job));
  strategy.slots = work.precision == Precision::fp16 ? 0 : 4;
  strategy.reproducible_tp = work.reproducible_tp;
  strategy.clip = 0.5;
  strategy.learning_rate = 0.01;
  strategy.decay = Decay::cosine;
  strategy.layout.precision = work.precision;
  return strategy;
}

Trained undisturbed(const Work& work, size_t begin) {
  static std::map<std::string, Trained> trained;
  const Place& place = work.places[work.stays ? begin : 0];
  const auto [entry, is_new] = trained.try_emplace(fmt::format("{} {}", work.name, place.name));
  if (is_new) entry->second = train_ranks(job(work.job), strategy_of(place, work), place.ranks, AdamW{}, kSteps);
  return entry->second;
}

struct Journey {
  const Work* work;
  size_t begin = 0;
};

std::vector<Journey> journeys() {
  std::vector<Journey> all;
  for (const Work& work : works()) {
    for (size_t begin = 0; begin < work.journeys; ++begin) all.push_back({&work, begin});
  }
  return all;
}

std::ostream& operator<<(std::ostream& out, const Journey& journey) {
  return out << journey.work->name << "_from_" << journey.work->places[journey.begin].name;
}

class Resume : public ::testing::TestWithParam<Journey> {};

TEST_P(Resume, HasTheBitsOfARunWithoutAStop) {
  const auto& [work, begin] = GetParam();
  const test::TempFolder folder;
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < 4; ++i) {
    const size_t at = work->stays ? begin : (begin + i * (1 + begin % 2)) % work->places.size();
    const Place& place = work->places[at];
    stretches.push_back({strategy_of(place, *work), place.ranks, i < 3 ? kStops[i] : kSteps});
  }
  const bool in_background = begin % 2 == 0;
  expect_equal(train_in_stretches(job(work->job), stretches, AdamW{}, folder.path().string(), in_background),
               undisturbed(*work, begin), testing::PrintToString(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Table, Resume, testing::ValuesIn(journeys()),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace weft::resume_test
