// Alarms: each is raised by a run that goes wrong in its way, and by no other; never by a run that goes well.
#include "weft/report/alarms/run_alarms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>
#include <random>

namespace weft::run_alarms_test {
namespace {

/// A run by its steps, from 1.
struct Case {
  const char* name;
  std::function<void(int64_t step, SeenStep&)> changes;
  std::vector<AlarmKind> raises;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

constexpr int64_t kSteps = 1200;

/// A run that goes well: the loss falls towards a floor, all with noise.
SeenStep usual(int64_t step, std::mt19937_64& random) {
  std::normal_distribution<double> noise;
  const double progress = std::exp(-static_cast<double>(step) / 200.0);
  return {.step = step,
          .loss = (2.0 + 5.0 * progress) * (1.0 + 0.03 * noise(random)),
          .norm = (1.0 + 3.0 * progress) * std::exp(0.2 * noise(random)),
          .step_s = 0.1 * std::exp(0.1 * noise(random)),
          .data_s = 0.001,
          .samples = 64,
          .memory_bytes = 1e9 * (1.0 + 0.001 * noise(random))};
}

std::vector<Case> cases() {
  return {
      {"well", [](int64_t, SeenStep&) {}, {}},
      {"one_bad_batch",
       [](int64_t step, SeenStep& seen) {
         if (step == 700) seen.loss *= 20.0, seen.norm *= 50.0, seen.step_s *= 40.0;
       },
       {}},
      {"diverges_slowly",
       [](int64_t step, SeenStep& seen) {
         if (step > 600) seen.loss *= std::exp(static_cast<double>(step - 600) / 150.0);
       },
       {AlarmKind::divergence}},
      {"diverges_at_once",
       [](int64_t step, SeenStep& seen) { seen.loss *= std::exp(0.4 * static_cast<double>(std::min<int64_t>(step, 30))); },
       {AlarmKind::divergence}},
      {"jumps", [](int64_t step, SeenStep& seen) { seen.loss += step > 600 ? 2.5 : 0.0; }, {AlarmKind::divergence}},
      {"explodes", [](int64_t step, SeenStep& seen) { seen.norm *= step > 600 ? 40.0 : 1.0; }, {AlarmKind::gradients}},
      {"starves", [](int64_t step, SeenStep& seen) { seen.data_s = step > 600 ? 0.04 : 0.001; }, {AlarmKind::data}},
      {"slows", [](int64_t step, SeenStep& seen) { seen.step_s *= step > 600 ? 1.8 : 1.0; }, {AlarmKind::throughput}},
      {"larger_batch",
       [](int64_t step, SeenStep& seen) {
         if (step > 600) seen.samples = 32;  // a ramp's phases differ in rate
       },
       {}},
      {"leaks",
       [](int64_t step, SeenStep& seen) { seen.memory_bytes += 5e5 * static_cast<double>(step); },
       {AlarmKind::memory}},
      {"leaks_in_short_steps",  // memory is read about once a second
       [](int64_t step, SeenStep& seen) { seen.memory_bytes = step % 130 == 0 ? 1e9 + 1e6 * static_cast<double>(step) : 0.0; },
       {AlarmKind::memory}},
      {"near_zero",  // noise of a loss that has nothing left to learn is no divergence
       [](int64_t step, SeenStep& seen) {
         seen.loss =
             3.0 * std::exp(-static_cast<double>(step) / 60.0) + 1e-4 * (1.0 + 0.5 * std::sin(static_cast<double>(step)));
       },
       {}},
  };
}

class AlarmedRuns : public testing::TestWithParam<Case> {};

TEST_P(AlarmedRuns, RaiseTheirAlarmOnce) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    std::mt19937_64 random(seed);
    RunAlarms alarms;
    std::vector<AlarmKind> raised;
    for (int64_t step = 1; step <= kSteps; ++step) {
      SeenStep seen = usual(step, random);
      GetParam().changes(step, seen);
      for (const Alarm& alarm : alarms.add(seen)) {
        raised.push_back(alarm.kind);
        EXPECT_FALSE(alarm.text.empty() || alarm.look_at.empty());
      }
    }
    EXPECT_EQ(raised, GetParam().raises) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, AlarmedRuns, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

TEST(RunAlarms, AreRaisedAgainAfterTheRunWasWell) {
  std::mt19937_64 random(1);
  RunAlarms alarms;
  int raised = 0;
  for (int64_t step = 1; step <= 4 * kSteps; ++step) {
    SeenStep seen = usual(step, random);
    if (step / 600 % 2 == 1) seen.data_s = 0.05;
    for (const Alarm& alarm : alarms.add(seen)) raised += alarm.kind == AlarmKind::data;
  }
  EXPECT_EQ(raised, 4);
}

std::vector<AlarmKind> raised_by(const std::vector<SeenEvaluation>& evaluations, std::optional<double> chance = {}) {
  RunAlarms alarms(chance);
  std::vector<AlarmKind> raised;
  for (const SeenEvaluation& seen : evaluations) {
    for (const Alarm& alarm : alarms.add(seen)) raised.push_back(alarm.kind);
  }
  return raised;
}

TEST(RunAlarms, LookAtEvaluations) {
  using Kinds = std::vector<AlarmKind>;
  const auto losses = [](std::vector<double> values) {
    std::vector<SeenEvaluation> all;
    for (const double value : values) all.push_back({.loss = value});
    return all;
  };
  EXPECT_EQ(raised_by(losses({3, 2, 1, 1.1, 1.2, 1.3, 1.4, 1.5})), Kinds{AlarmKind::evaluation});
  EXPECT_EQ(raised_by(losses({3, 2, 1, 1.1, 1.2, 0.9, 1.1, 1.2, 0.8})), Kinds{});
  EXPECT_EQ(raised_by(losses({3, 2, 1, 1.1, 1.1, 1.1, 0.9, 1, 1, 1})), (Kinds{AlarmKind::evaluation, AlarmKind::evaluation}));
  const auto accuracies = [](std::vector<double> values) {
    std::vector<SeenEvaluation> all;
    for (const double value : values) all.push_back({.loss = 2.3, .accuracy = value});
    return all;
  };
  EXPECT_EQ(raised_by(accuracies({0.1, 0.11, 0.1, 0.1}), 0.1), Kinds{AlarmKind::accuracy});
  EXPECT_EQ(raised_by(accuracies({0.1, 0.11, 0.3, 0.5}), 0.1), Kinds{});
  EXPECT_EQ(raised_by(accuracies({0.1, 0.1, 0.1, 0.1})), Kinds{});
}

TEST(RunAlarms, TellOfADivergenceInItsFirstSteps) {
  RunAlarms alarms;
  size_t told = 0;
  for (int64_t step = 1; step <= 12; ++step) {
    EXPECT_EQ(alarms.rise() == "", step <= 6) << step;
    told += alarms.add(SeenStep{.step = step, .loss = 5.0 * std::exp(0.5 * static_cast<double>(step - 1))}).size();
  }
  EXPECT_EQ(told, 1U);
  EXPECT_EQ(alarms.rise().substr(0, 60), "the loss had risen from 5 (step 1) to 1.22e+03 (step 12): a ");
}

}  // namespace
}  // namespace weft::run_alarms_test
