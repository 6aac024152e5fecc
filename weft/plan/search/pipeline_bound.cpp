#include "weft/plan/search/pipeline_bound.h"

#include <algorithm>
#include <limits>

namespace weft {

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

/// Sums of a stage's passes.
struct StageBound {
  double forward = 0.0, recompute = 0.0;
  double back = 0.0;    ///< whole backward, or its first part
  double weight = 0.0;  ///< second part; 0 if it is whole
  int64_t kept_bytes = 0, moved_bytes = 0, deferred_bytes = 0;
};

StageBound stage_bound(const PipelineInputs& inputs, const StageBlocks& stage) {
  StageBound sum;
  for (int b = stage.first; b < stage.last; ++b) {
    const PassBound& block = inputs.passes.blocks[b];
    sum.forward += block.forward;
    sum.recompute += b + 1 < stage.last ? block.recompute : 0.0;
    sum.back += inputs.schedule.splits ? block.input : block.backward;
    sum.weight += inputs.schedule.splits ? block.weight : 0.0;
    sum.kept_bytes += block.kept_bytes;
    sum.moved_bytes += block.moved_bytes;
    sum.deferred_bytes += inputs.cost.blocks[b].splits ? inputs.cost.blocks[b].deferred_bytes : 0;
  }
  sum.back -= inputs.passes.blocks[stage.last - 1].recompute;
  // The last output leaves once it is sent; the first input stays.
  if (stage.last < std::ssize(inputs.cost.blocks)) sum.kept_bytes -= inputs.cost.blocks[stage.last - 1].output_bytes;
  sum.kept_bytes = std::max<int64_t>(sum.kept_bytes, 0);
  sum.moved_bytes = std::min(sum.moved_bytes, sum.kept_bytes);
  return sum;
}

/// Seconds of a message with a block's output, or 0 between stages of one rank.
double message_seconds(const PipelineInputs& inputs, const std::vector<StageBlocks>& stages, int from) {
  const std::vector<int>& rank_of_stage = inputs.schedule.schedule.rank_of_stage;
  if (rank_of_stage[from] == rank_of_stage[from + 1]) return 0.0;
  return inputs.latency_s +
         static_cast<double>(inputs.cost.blocks[stages[from].last - 1].made_bytes()) * inputs.seconds_per_byte;
}

/// Sums of all stages, and what messages between them take.
struct Pipeline {
  std::vector<StageBlocks> blocks;
  std::vector<StageBound> stages;
  std::vector<double> messages;  ///< from a stage to the next

  explicit Pipeline(const PipelineInputs& inputs)
      : blocks(stages_of(inputs.first_block, static_cast<int>(inputs.cost.blocks.size()))) {
    for (const StageBlocks& stage : blocks) stages.push_back(stage_bound(inputs, stage));
    for (int s = 0; s + 1 < static_cast<int>(blocks.size()); ++s) messages.push_back(message_seconds(inputs, blocks, s));
  }
};

}  // namespace

std::vector<RankBound> bound_without_pipeline(const ModelCost& cost, const PassBounds& passes, int micro_batches) {
  double work = 0.0, back = 0.0;
  RankBound rank{.stages = {{0, static_cast<int>(cost.blocks.size())}}};
  for (const PassBound& block : passes.blocks) {
    work += block.forward + block.backward;
    back += block.backward;
    rank.activation_bytes += block.kept_bytes;
    rank.moved_bytes += block.moved_bytes;
  }
  rank.activation_bytes += cost.loss_peak_bytes;
  rank.end_s = rank.work_s = work * micro_batches;
  rank.last_start_s = rank.end_s - back;
  return {rank};
}

std::vector<RankBound> pipeline_bound(const PipelineInputs& inputs) {
  const Pipeline pipeline(inputs);
  const ScheduleFacts& schedule = inputs.schedule;
  const std::vector<int>& rank_of_stage = schedule.schedule.rank_of_stage;
  const int stages = static_cast<int>(pipeline.stages.size());
  std::vector<RankBound> result(schedule.schedule.tasks.size());
  std::vector<double> work(result.size(), 0.0), weights(result.size(), 0.0);  // of a micro-batch
  std::vector<double> starts(stages, 0.0);                                    // when the first micro-batch arrives
  for (int s = 0; s < stages; ++s) {
    const StageBound& stage = pipeline.stages[s];
    RankBound& rank = result[rank_of_stage[s]];
    work[rank_of_stage[s]] += stage.forward + stage.back;
    weights[rank_of_stage[s]] += stage.weight;
    rank.activation_bytes += schedule.in_flight[s] * stage.kept_bytes + schedule.deferred[s] * stage.deferred_bytes;
    rank.moved_bytes += schedule.in_flight[s] * stage.moved_bytes;
    if (s + 1 == stages) {  // the loss comes while a micro-batch at least is in flight
      rank.activation_bytes = std::max(rank.activation_bytes, stage.kept_bytes + inputs.cost.loss_peak_bytes);
    }
    rank.stages.push_back(pipeline.blocks[s]);
    if (s > 0) starts[s] = starts[s - 1] + pipeline.stages[s - 1].forward + pipeline.messages[s - 1];
  }
  double end = 0.0;  // of the stage's last whole backward or first part of it
  for (int s = stages - 1; s >= 0; --s) {
    const StageBound& stage = pipeline.stages[s];
    const int q = rank_of_stage[s];
    if (s + 1 < stages) end += pipeline.messages[s] + stage.back - stage.recompute;
    const bool is_first = schedule.first_stage[q] == s;  // the rank's last backward is of this stage
    end = std::max(end, starts[s] + inputs.micro_batches * (is_first ? work[q] : stage.forward + stage.back));
    if (!is_first) continue;
    result[q].start_s = starts[s];
    result[q].work_s = inputs.micro_batches * (work[q] + weights[q]);
    result[q].last_start_s = end - stage.back;
    result[q].end_s = std::max(end + stage.weight, starts[s] + result[q].work_s);
  }
  return result;
}

void refine(const PipelineInputs& inputs, std::vector<RankBound>& bounds) {
  const Pipeline pipeline(inputs);
  const Schedule& schedule = inputs.schedule.schedule;
  std::vector<StageTimes> times;
  times.reserve(pipeline.stages.size());
  for (const StageBound& stage : pipeline.stages) {
    times.push_back({.forward = stage.forward,
                     .backward_input = stage.back - stage.recompute,
                     .backward_weight = stage.weight,
                     .recompute = stage.recompute,
                     .whole_backward = stage.back - stage.recompute});
  }
  double message = pipeline.messages.empty() ? 0.0 : kForever;
  for (size_t s = 0; s < pipeline.messages.size(); ++s) {
    if (schedule.rank_of_stage[s] != schedule.rank_of_stage[s + 1]) message = std::min(message, pipeline.messages[s]);
  }
  const TaskTimes tasks = task_times(schedule, times, message);
  for (size_t q = 0; q < bounds.size(); ++q) {
    for (size_t i = 0; i < tasks[q].size(); ++i) {
      bounds[q].end_s = std::max(bounds[q].end_s, tasks[q][i].end);
      if (schedule.tasks[q][i].kind == TaskKind::forward || schedule.tasks[q][i].kind == TaskKind::backward_weight) continue;
      const double back = pipeline.stages[schedule.tasks[q][i].stage].back;
      bounds[q].last_start_s = std::max(bounds[q].last_start_s, tasks[q][i].end - back);
    }
  }
}

double least_seconds(const PassBounds& passes, int ranks, int micro_batches) {
  double sum = 0.0;
  for (const PassBound& block : passes.blocks) {
    sum += block.forward + std::min(block.backward, block.input + block.weight);
  }
  return sum * micro_batches / ranks;
}

}  // namespace weft
