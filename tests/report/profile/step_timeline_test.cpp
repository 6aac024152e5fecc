// The timeline of a profile's step as a file: what comes back, which ranks are kept, what is refused.
#include "weft/report/profile/step_timeline.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/program/pipelines.h"
#include "weft/base/error.h"
#include "weft/program/fingerprint.h"

namespace weft::step_timeline_test {
namespace {

/// A step in which instruction i of rank r begins at 100 + r + i.
MeasuredStep measured(const Program& program, int64_t number, double seconds) {
  MeasuredStep step{.step = number};
  for (int rank = 0; rank < program.world_size(); ++rank) {
    step.ranks.emplace_back();
    for (size_t i = 0; i < program.of(rank).size(); ++i) {
      const double start_s = 100.0 + rank + static_cast<double>(i);
      step.ranks.back().push_back({.start_s = start_s, .issued_s = start_s, .end_s = start_s + seconds});
    }
  }
  return step;
}

TEST(StepTimeline, ComesBackFromItsFile) {
  const Program program = pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2}));
  const StepTimeline written = timeline_of(program, {measured(program, 7, 0.25), measured(program, 8, 0.5)}, 8);
  const StepTimeline read = parse_timeline(timeline_json(written), "t.json");
  EXPECT_EQ(read.program, fingerprint(program));
  EXPECT_EQ(read.step, 8);
  EXPECT_EQ(read.steps, (std::vector<int64_t>{7, 8}));
  ASSERT_EQ(read.timed.size(), program.of(0).size() + program.of(1).size());
  const TimedInstruction& second = read.timed[program.of(0).size() + 1];
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(second.index, 1);
  EXPECT_NEAR(second.start_s, 2.0, 1e-9) << "from the first rank's begin";
  EXPECT_NEAR(second.end_s, 2.5, 1e-9) << "of the step that was asked for";
}

TEST(StepTimeline, KeepsOnePipelineOfManyRanks) {
  for (const int columns : {32, 33}) {
    const Program program = pipeline_program(gpipe_schedule({.ranks = 2, .micro_batches = 2}), {}, {.dp = columns});
    std::set<int> ranks;
    for (const TimedInstruction& x : timeline_of(program, {measured(program, 1, 0.5)}, 1).timed) ranks.insert(x.rank);
    if (columns == 32) {
      EXPECT_EQ(ranks.size(), 64u);
    } else {
      EXPECT_EQ(ranks, (std::set<int>{0, 33}));
    }
  }
}

TEST(StepTimeline, RefusesOtherTexts) {
  for (const char* text :
       {"", "{}", "[1]", R"({"program":"x","step":1,"steps":[1],"ranks":[]})",
        R"({"program":"1f","step":1,"steps":[],"ranks":[]})",
        R"({"program":"1f","step":1,"steps":[1],"ranks":[{"rank":0,"times_ns":[1]}]})",
        R"({"program":"1f","step":1,"steps":[1],"ranks":[{"rank":1,"times_ns":[1,2]},{"rank":0,"times_ns":[1,2]}]})"}) {
    EXPECT_THROW(parse_timeline(text, "t.json"), InputError) << text;
  }
}

}  // namespace
}  // namespace weft::step_timeline_test
