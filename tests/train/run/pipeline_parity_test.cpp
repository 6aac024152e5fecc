// The parity table (law 1) and same bits (law 2) of pipelines: every schedule, with replicas and with shards at every level.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/train/jobs.h"
#include "weft/program/build/make_schedule.h"
#include "weft/program/schedules/csv.h"

namespace weft::pipeline_parity_test {
namespace {

constexpr int kSteps = 3;

struct Cell {
  std::string schedule;
  int pp = 2;
  int data = 1;  ///< ranks of a stage
  Spread spread = Spread::dp;
  ShardLevel level = ShardLevel::none;

  int ranks() const { return pp * data; }
  std::string text() const {
    std::string result = schedule + "_pp" + std::to_string(pp);
    if (data == 1) return result;
    result += spread == Spread::dp ? "_dp" : spread == Spread::shard ? "_shard" : "_hybrid";
    return result + std::to_string(data) + "_" + std::string(name(level));
  }
};

std::ostream& operator<<(std::ostream& out, const Cell& cell) { return out << cell.text(); }

const std::vector<std::string>& schedules() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names = schedule_names();
    std::erase(names, "csv");  // whose text is the user's
    return names;
  }();
  return all;
}

std::vector<Cell> cells(const std::string& schedule) {
  std::vector<Cell> all;
  for (const int pp : {2, 4}) {
    all.push_back({.schedule = schedule, .pp = pp});
    all.push_back({.schedule = schedule, .pp = pp, .data = 2});
    all.push_back({.schedule = schedule, .pp = pp, .data = 2, .spread = Spread::shard, .level = ShardLevel::optimizer});
    all.push_back({.schedule = schedule, .pp = pp, .data = 2, .spread = Spread::shard, .level = ShardLevel::gradients});
    all.push_back({.schedule = schedule, .pp = pp, .data = 2, .spread = Spread::shard, .level = ShardLevel::parameters});
  }
  all.push_back({.schedule = schedule, .pp = 2, .data = 4, .spread = Spread::hybrid, .level = ShardLevel::parameters});
  return all;
}

/// A user's own: the first half of the micro-batches goes forward and backward, then the second, whose weights' parts come
/// last.
std::string two_waves(int ranks, int micro_batches) {
  std::string text;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto add = [&text, rank](char task, int begin, int end) {
      for (int m = begin; m < end; ++m) text += fmt::format("{}{}.{},", task, rank, m);
    };
    const int half = micro_batches / 2;
    add('F', 0, half);
    add('B', 0, half);
    add('F', half, micro_batches);
    add('I', half, micro_batches);
    add('W', half, micro_batches);
    text.back() = '\n';
  }
  return text;
}

Strategy strategy_of(const Cell& cell, int slots) {
  Strategy strategy{.name = cell.text(), .micro_batch = 1, .slots = slots, .clip = 0.5, .spread = cell.spread, .pp = cell.pp};
  strategy.layout.shard_level = cell.level;
  strategy.layout.pipeline.schedule = cell.schedule;
  if (cell.schedule == "csv") {
    const auto micro_batches = static_cast<int>(job("deep_gpt").global_batch) / cell.data;
    strategy.layout.pipeline.given = csv_schedule(two_waves(cell.pp, micro_batches));
  }
  return strategy;
}

const Trained& one_device(const std::string& name) {
  static std::map<std::string, Trained> trained;
  const auto [entry, is_new] = trained.try_emplace(name);
  const Strategy alone{.name = "one", .micro_batch = 1, .slots = 4, .clip = 0.5};
  if (is_new) entry->second = train_ranks(job(name), alone, 1, AdamW{}, kSteps);
  return entry->second;
}

class PipelineTest : public ::testing::TestWithParam<Cell> {};

TEST_P(PipelineTest, HasTheBitsOfOneDevice) {
  const Cell& cell = GetParam();
  expect_equal(train_ranks(job("deep_gpt"), strategy_of(cell, 4), cell.ranks(), AdamW{}, kSteps), one_device("deep_gpt"),
               cell.text());
}

std::string name_of(const testing::TestParamInfo<Cell>& info) {
  std::string name = info.param.text();
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

/// All schedules for this many pipeline ranks, except the one that sanitizers run.
std::vector<Cell> cells_of(int pp) {
  std::vector<Cell> all;
  for (const std::string& schedule : schedule_names()) {
    if (schedule == "zb-v") continue;
    for (Cell& cell : cells(schedule)) {
      if (cell.pp == pp) all.push_back(std::move(cell));
    }
  }
  return all;
}

// Suites run side by side.
INSTANTIATE_TEST_SUITE_P(OnTwo, PipelineTest, testing::ValuesIn(cells_of(2)), name_of);
INSTANTIATE_TEST_SUITE_P(OnFour, PipelineTest, testing::ValuesIn(cells_of(4)), name_of);
INSTANTIATE_TEST_SUITE_P(ZbV, PipelineTest, testing::ValuesIn(cells("zb-v")), name_of);

/// Choices that do not change the bits either.
struct Choice {
  const char* what;
  BackendKind backend = BackendKind::shm;
  LayoutOptions layout = {};
};

TEST(PipelineChoices, ChangeNoBit) {
  const ShardLevel parameters = ShardLevel::parameters;
  const std::vector<Choice> choices = {
      {.what = "gloo", .backend = BackendKind::gloo},
      {.what = "gloo, sharded", .backend = BackendKind::gloo, .layout = {.shard_level = parameters}},
      {.what = "recompute", .layout = {.recompute_every = 1}},
      {.what = "every second block, sharded", .layout = {.shard_level = parameters, .recompute_every = 2}},
      {.what = "attention", .layout = {.recompute_parts = true}},
      {.what = "kept after forward", .layout = {.shard_level = parameters, .reshard_after_forward = false}},
      {.what = "deep prefetch", .layout = {.shard_level = parameters, .prefetch = 3}},
      {.what = "offload",
       .layout = {.shard_level = parameters,
                  .recompute_every = 1,
                  .offload_optimizer = Offload::host,
                  .offload_parameters = Offload::host,
                  .offload_activations = Offload::host}},
      {.what = "stages of different sizes", .layout = {.pipeline = {.first_block = {0, 3}}}},
  };
  for (const Choice& choice : choices) {
    for (const std::string schedule : {"1f1b", "zb-h1", "zb-v"}) {
      const bool cut = !choice.layout.pipeline.first_block.empty();
      if (cut && schedule == "zb-v") continue;  // four stages
      Strategy s{.name = choice.what, .micro_batch = 1, .slots = 4, .backend = choice.backend, .clip = 0.5, .pp = 2};
      s.spread = choice.layout.shard_level == parameters ? Spread::shard : Spread::dp;
      s.layout = choice.layout;
      s.layout.pipeline.schedule = schedule;
      expect_equal(train_ranks(job("deep_gpt"), s, 4, AdamW{}, kSteps), one_device("deep_gpt"), schedule + ", " + choice.what);
    }
  }
}

TEST(PipelineChoices, FewerMicroBatchesThanRanksChangeNoBit) {
  Strategy two{.name = "one", .micro_batch = job("deep_gpt").global_batch / 2, .slots = 2, .clip = 0.5};
  const Trained alone = train_ranks(job("deep_gpt"), two, 1, AdamW{}, kSteps);
  two.pp = 4;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.fills_ranks || kind.make == nullptr) continue;
    two.layout.pipeline.schedule = kind.name;
    expect_equal(train_ranks(job("deep_gpt"), two, 4, AdamW{}, kSteps), alone, std::string(kind.name));
  }
}

/// A user's own: input gradients last micro-batch first, on the last stage too, which loads the targets.
TEST(PipelineChoices, InputGradientsInAnyOrderChangeNoBit) {
  const int micro_batches = static_cast<int>(job("deep_gpt").global_batch);
  std::string text;
  for (const int rank : {0, 1}) {
    for (int m = 0; m < micro_batches; ++m) text += fmt::format("F{}.{},", rank, m);
    for (int m = micro_batches; m-- > 0;) text += fmt::format("I{}.{},", rank, m);
    for (int m = 0; m < micro_batches; ++m) text += fmt::format("W{}.{},", rank, m);
    text.back() = '\n';
  }
  Strategy strategy = strategy_of({.schedule = "csv"}, 4);
  strategy.layout.pipeline.given = csv_schedule(text);
  expect_equal(train_ranks(job("deep_gpt"), strategy, 2, AdamW{}, kSteps), one_device("deep_gpt"), "descending");
}

/// Blocks whose backward cannot be split, and is run whole: all of them, or every second one. And another model.
TEST(PipelineChoices, OtherBlocksChangeNoBit) {
  for (const std::string name : {"deep_modules", "deep_mixed", "deep_llama"}) {
    for (const std::string& schedule : schedules()) {
      for (const ShardLevel level : {ShardLevel::none, ShardLevel::parameters}) {
        const Cell cell{.schedule = schedule, .pp = 2, .data = 2, .spread = Spread::shard, .level = level};
        expect_equal(train_ranks(job(name), strategy_of(cell, 4), 4, AdamW{}, kSteps), one_device(name),
                     name + ", " + schedule);
      }
    }
  }
}

/// Weights tied across stages, whose two gradients are summed in another order on one device: plain LibTorch is the measure.
TEST(PipelineParity, TiedWeights) {
  for (const std::string& schedule : schedules()) {
    for (const ShardLevel level : {ShardLevel::none, ShardLevel::gradients, ShardLevel::parameters}) {
      Strategy s{.name = schedule, .micro_batch = 1, .clip = 0.05, .spread = Spread::shard, .pp = 2};
      s.layout.shard_level = level;
      s.layout.pipeline.schedule = schedule;
      SCOPED_TRACE(schedule + ", " + std::string(name(level)));
      expect_parity(job("deep_tied_gpt"), s, 4, 3);
    }
  }
}

}  // namespace
}  // namespace weft::pipeline_parity_test
