#include "weft/plan/cost/block_work.h"

#include "weft/program/build/build.h"
#include "weft/program/build/stages.h"
#include "weft/program/simulate/work_time.h"

namespace weft {

namespace {

/// Program with all blocks on one rank, for one micro-batch.
Program alone(const ModelCost& cost, LayoutOptions options, StepCounts counts, bool split) {
  std::vector<Task> tasks = {{TaskKind::forward}, {TaskKind::backward}};
  if (split) tasks = {{TaskKind::forward}, {TaskKind::backward_input}, {TaskKind::backward_weight}};
  options.pipeline = {.given = {.name = "one rank", .micro_batches = 1, .rank_of_stage = {0}, .tasks = {tasks}}};
  options.gathered_bytes = 0;
  counts.pp = counts.micro_batches = counts.slots = 1;
  return build_program(cost, step_layout(options, counts));
}

StageTimes no_time() {
  return {.forward = 0.0, .backward_input = 0.0, .backward_weight = 0.0, .recompute = 0.0, .whole_backward = 0.0};
}

}  // namespace

std::vector<BlockWork> block_work(const ModelCost& cost, const LayoutOptions& options, const StepCounts& counts,
                                  const Hardware& hardware) {
  std::vector<BlockWork> result(cost.blocks.size(), {.times = no_time()});
  const Program split = alone(cost, options, counts, true), whole = alone(cost, options, counts, false);
  check_block_times(hardware, split.block_names);
  const WorkTime split_time(split, hardware), whole_time(whole, hardware);
  std::vector<bool> went_forward(result.size(), false);
  for (const Instruction& x : split.of(0)) {
    if (x.op == Op::loss) result.back().times.backward_input += split_time.seconds(x);
    if (!takes_one_block(x.op)) continue;
    BlockWork& work = result[x.first];
    if (x.op == Op::forward) {
      (went_forward[x.first] ? work.times.recompute : work.times.forward) += split_time.seconds(x);
      if (!went_forward[x.first]) work.kept_bytes += x.allocates;
      went_forward[x.first] = true;
    }
    if (x.op == Op::drop) work.kept_bytes -= x.frees;
    if (x.op == Op::backward || x.op == Op::backward_input) work.times.backward_input += split_time.seconds(x);
    if (x.op == Op::backward_weight) work.times.backward_weight += split_time.seconds(x);
  }
  for (const Instruction& x : whole.of(0)) {
    if (x.op == Op::loss) *result.back().times.whole_backward += whole_time.seconds(x);
    if (x.op == Op::backward) *result[x.first].times.whole_backward += whole_time.seconds(x);
  }
  return result;
}

std::vector<double> block_seconds(const std::vector<BlockWork>& work) {
  std::vector<double> result;
  result.reserve(work.size());
  for (const auto& [times, kept] : work) result.push_back(times.forward + times.of(TaskKind::backward));
  return result;
}

std::vector<StageTimes> stage_times(const std::vector<BlockWork>& work, const std::vector<int>& first_block) {
  std::vector<StageTimes> result;
  for (const auto& [first, last] : stages_of(first_block, static_cast<int>(work.size()))) {
    StageTimes sum = no_time();
    for (int b = first; b < last; ++b) {
      const StageTimes& times = work[b].times;
      sum.forward += times.forward;
      sum.backward_input += times.backward_input;
      sum.backward_weight += times.backward_weight;
      sum.recompute += times.recompute;
      *sum.whole_backward += times.backward();
    }
    result.push_back(sum);
  }
  return result;
}

}  // namespace weft
