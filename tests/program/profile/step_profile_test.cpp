// Profiles: the critical path adds up to the step, a replay of what was measured takes as long, and a slow rank is named.
#include "weft/program/profile/step_profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program/pipelines.h"
#include "weft/program/profile/replay.h"
#include "weft/program/simulate/simulate.h"

namespace weft::step_profile_test {
namespace {

const Hardware kDevice{.flops = 1.0, .intra_host = {.latency_s = 0.01, .bytes_per_s = 100.0}};

/// A step as the simulator times it.
MeasuredStep measured(const Program& program) {
  const Simulation simulation = simulate(program, kDevice);
  MeasuredStep step{.step = 3};
  for (int rank = 0; rank < program.world_size(); ++rank) {
    std::vector<MeasuredInstruction> times;
    for (size_t i = 0; i < program.of(rank).size(); ++i) {
      const Span& span = simulation.of(rank).spans[i];
      const bool computes = program.of(rank)[i].lane == Lane::compute;
      const double start = times.empty() ? span.start_s : std::max(span.start_s, times.back().issued_s);  // one after another
      times.push_back({start, computes ? span.end_s : start, std::max(start, span.end_s)});
    }
    step.ranks.push_back(times);
  }
  step.operators.resize(step.ranks.size());
  return step;
}

std::vector<Program> programs() {
  const StageCost cost{.blocks = 2, .numel = 64, .message_bytes = 8};
  return {pipeline_program(naive_schedule({.ranks = 1, .micro_batches = 2}), cost),
          pipeline_program(naive_schedule({.ranks = 1, .micro_batches = 2}), cost, {.dp = 4}),
          pipeline_program(naive_schedule({.ranks = 1, .micro_batches = 2}), cost, {.shard = 2},
                           {.shard_level = ShardLevel::parameters}),
          pipeline_program(one_f_one_b_schedule({.ranks = 4, .micro_batches = 6}), cost, {.dp = 2}),
          pipeline_program(zb_h1_schedule({.ranks = 2, .micro_batches = 4}), cost)};
}

TEST(StepProfiles, PathAddsUpAndReplayTakesAsLong) {
  for (const Program& program : programs()) {
    const MeasuredStep step = measured(program);
    const Partners partners(program);
    const std::vector<PathPiece> path = critical_path(program, partners, step);
    ASSERT_FALSE(path.empty());
    double sum = 0.0;
    for (size_t i = 0; i < path.size(); ++i) {
      EXPECT_LT(path[i].start_s, path[i].end_s);
      EXPECT_NEAR(path[i].start_s, i > 0 ? path[i - 1].end_s : 0.0, 1e-9) << i;
      sum += path[i].end_s - path[i].start_s;
    }
    EXPECT_NEAR(sum, step.seconds(), 1e-6);
    const StepProfile profile = profile_of(program, {step}, nullptr);
    EXPECT_NEAR(profile.replayed_s, profile.step_s, 1e-9);
    for (const FasterStep& faster : profile.faster) {
      EXPECT_LE(faster.nothing_s, faster.half_s + 1e-9) << faster.what;
      EXPECT_LE(faster.half_s, profile.replayed_s + 1e-9) << faster.what;
    }
  }
}

/// One rank's forward, backward and reduce with times, everything else in no time.
std::vector<MeasuredInstruction> times_of(const InstructionList& list, double forward, double backward, double reduced) {
  std::vector<MeasuredInstruction> times;
  double now = 0.0;
  for (const Instruction& x : list) {
    const double takes = x.op == Op::forward ? forward : x.op == Op::backward ? backward : 0.0;
    for (const int awaited : x.waits) now = std::max(now, times[awaited].end_s);
    times.push_back({now, now + takes, x.op == Op::reduce ? reduced : now + takes});
    now += takes;
  }
  return times;
}

TEST(StepProfiles, NamesTheSlowRank) {
  const Program program = pipeline_program(naive_schedule({.ranks = 1, .micro_batches = 1}), {.numel = 64}, {.dp = 2});
  MeasuredStep step{.step = 1, .ranks = {times_of(program.of(0), 1.0, 1.0, 5.0), times_of(program.of(1), 2.0, 2.0, 5.0)}};
  step.operators = {{{.name = "aten::mm",
                      .start_s = 0.0,
                      .end_s = 0.75,
                      .is_kernel = true,
                      .work = {{.kind = OperatorKind::product, .rows = 10, .columns = 20, .inner = 30}}}},
                    {}};
  const StepProfile profile = profile_of(program, {step}, nullptr);
  EXPECT_DOUBLE_EQ(profile.step_s, 5.0);
  ASSERT_GE(profile.path.size(), 3U);
  for (const PathShare& share : profile.path) {
    EXPECT_TRUE(share.rank == 1 || share.what.ends_with(": bytes")) << share.what << ", rank " << share.rank;
  }
  ASSERT_FALSE(profile.waits.empty());
  const RankWait& longest = profile.waits.front();
  EXPECT_EQ(longest.rank, 0);
  EXPECT_EQ(longest.kind.substr(0, 11), "reduce over");
  EXPECT_EQ(longest.late_rank, 1);
  EXPECT_EQ(longest.late_kind, "backward");
  EXPECT_DOUBLE_EQ(longest.late_s, 2.0);
  EXPECT_DOUBLE_EQ(longest.moving_s, 1.0);
  const auto slow = std::find_if(profile.faster.begin(), profile.faster.end(),
                                 [](const FasterStep& x) { return x.what == "compute of rank 1"; });
  ASSERT_NE(slow, profile.faster.end());
  EXPECT_DOUBLE_EQ(slow->half_s, 3.0);     // both come at 2, and the bytes take 1
  EXPECT_DOUBLE_EQ(slow->nothing_s, 3.0);  // rank 0 is the slowest then
  ASSERT_EQ(profile.operators.size(), 1U);
  EXPECT_EQ(profile.operators[0].kind, "forward");
  EXPECT_EQ(profile.operators[0].shape, "[10, 30] x [30, 20]");
  EXPECT_DOUBLE_EQ(profile.operators[0].flops, 12000.0);
}

TEST(StepProfiles, RefuseTimesOfAnotherProgram) {
  const Program program = programs().front();
  MeasuredStep step = measured(program);
  step.ranks[0][1].end_s = -1.0;
  EXPECT_THROW(profile_of(program, {step}, nullptr), InputError);
  step.ranks[0].pop_back();
  EXPECT_THROW(profile_of(program, {step}, nullptr), InputError);
  EXPECT_THROW(profile_of(program, {}, nullptr), InputError);
}

}  // namespace
}  // namespace weft::step_profile_test
