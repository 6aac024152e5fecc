// RunLength: what people write, and after which step it is due.
#include "weft/recipe/run_length.h"

#include <gtest/gtest.h>

namespace weft::run_length_test {
namespace {

using Unit = LengthUnit;

TEST(RunLength, ReadsWhatPeopleWriteAndWritesItBack) {
  struct Case {
    const char* text;
    RunLength length;
    const char* back;
  };
  for (const Case& c :
       {Case{"500 steps", {500, Unit::steps}, "500"}, Case{"1 epoch", {1, Unit::epochs}, "1 epoch"},
        Case{"0.5 epochs", {0.5, Unit::epochs}, "0.5 epochs"}, Case{"1e6 tokens", {1e6, Unit::tokens}, "1000000 tokens"},
        Case{"1 samples", {1, Unit::samples}, "1 sample"}, Case{"10 min", {600, Unit::seconds}, "600 s"},
        Case{"2h", {7200, Unit::seconds}, "7200 s"}}) {
    const auto length = parse_run_length(c.text);
    ASSERT_TRUE(length) << c.text;
    EXPECT_EQ(length->amount, c.length.amount) << c.text;
    EXPECT_EQ(length->unit, c.length.unit) << c.text;
    EXPECT_EQ(run_length_text(*length), c.back);
  }
  for (const char* text : {"", "steps", "500", "0 steps", "-3 steps", "1.5 steps", "3 weeks", "nan s", "1 e", "1e-320 samples",
                           "0.5 tokens", "1e-9 s", "1e16 samples", "1e300 epochs"}) {
    EXPECT_FALSE(parse_run_length(text)) << text;
  }
}

/// Which of the first `steps` steps it is due after.
std::vector<int64_t> due(const RunLength& length, const RunMeasure& measure, int64_t steps) {
  const RunLength counted = length.counted_by(measure);
  std::vector<int64_t> found;
  RunClock before;
  for (int64_t step = 1; step <= steps; ++step) {
    const auto done = static_cast<double>(step);
    const RunClock now{.steps = done, .samples = done * static_cast<double>(measure.step_samples)};
    if (counted.passed(before, now)) found.push_back(step);
    before = now;
  }
  return found;
}

TEST(RunLength, IsDueAfterTheFirstStepThatReachesAMultiple) {
  struct Case {
    RunLength length;
    RunMeasure measure;
    std::vector<int64_t> steps;  ///< of the first 12
  };
  const Case cases[] = {
      {{5, Unit::steps}, {10, 4}, {5, 10}},
      {{1, Unit::epochs}, {12, 4}, {3, 6, 9, 12}},
      {{1, Unit::epochs}, {10, 4}, {3, 5, 8, 10}},  // 2.5 steps: no drift
      {{0.1, Unit::epochs}, {40, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
      {{0.3, Unit::epochs}, {40, 4}, {3, 6, 9, 12}},                // 0.3 is no binary number
      {{0.7, Unit::epochs}, {60, 7}, {6, 12}},                      // nor is 0.7
      {{0.25, Unit::epochs}, {10, 2}, {2, 3, 5, 6, 8, 9, 11, 12}},  // 2.5 samples are 3
      {{2, Unit::epochs}, {3, 12}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
      {{9, Unit::samples}, {100, 4}, {3, 5, 7, 9, 12}},
      {{100, Unit::tokens}, {100, 4, {}, 32}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},  // 4 samples
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(run_length_text(c.length));
    EXPECT_EQ(due(c.length, c.measure, 12), c.steps);
    EXPECT_EQ(c.length.steps(c.measure), static_cast<double>(c.steps.front()));
  }
  EXPECT_FALSE(RunLength{}.passed({}, {.steps = 100}));
}

TEST(RunLength, AnyAmountIsASampleOrMore) {
  EXPECT_EQ((RunLength{1e-12, Unit::epochs}.steps({60000, 128})), 1.0);
  EXPECT_EQ((RunLength{1, Unit::tokens}.steps({60000, 128, {}, 1000000})), 1.0);
  const int64_t many = 30'000'000'000;  // a third, in doubles, is off by more than 1e-6
  EXPECT_EQ((RunLength{1.1, Unit::epochs}.steps({many, 1})), 33e9);
}

/// Like the whole run: the last of n epochs is due with its last step.
TEST(RunLength, EpochsOfARunAreAllDueWithinIt) {
  for (int64_t size = 1; size <= 40; ++size) {
    for (int64_t batch = 1; batch <= size; ++batch) {
      const RunMeasure measure{size, batch};
      const auto steps = static_cast<int64_t>(RunLength{7, Unit::epochs}.steps(measure));
      const std::vector<int64_t> found = due({1, Unit::epochs}, measure, steps);
      EXPECT_EQ(found.size(), 7u) << size << " in " << batch;
      EXPECT_EQ(found.back(), steps) << size << " in " << batch;
    }
  }
}

}  // namespace
}  // namespace weft::run_length_test
