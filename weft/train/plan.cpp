#include "weft/train/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/program/balance.h"
#include "weft/program/build.h"
#include "weft/program/make_schedule.h"
#include "weft/program/verify.h"
#include "weft/train/block_work.h"
#include "weft/train/build_model.h"
#include "weft/train/cut.h"
#include "weft/train/hardware_file.h"
#include "weft/train/key_file.h"

namespace weft {

namespace {

/// The first block of each stage.
std::vector<int> cut_by_hand(const std::string& text, int blocks, int stages) {
  const std::vector<int64_t> counts = stages_by_hand(text);
  if (static_cast<int>(counts.size()) != stages) {
    throw InputError(
        fmt::format("layout.stages = \"{}\" makes {} stages, but the schedule has {}", text, counts.size(), stages));
  }
  check_stages_by_hand(text, blocks);
  std::vector<int> first;
  int next = 0;
  for (const int64_t count : counts) {
    first.push_back(next);
    next += static_cast<int>(count);
  }
  return first;
}

std::vector<double> block_seconds(const std::vector<BlockWork>& work) {
  std::vector<double> result;
  result.reserve(work.size());
  for (const auto& [times, kept] : work) result.push_back(times.forward + times.of(TaskKind::backward));
  return result;
}

/// State in float32 and Adam's two, and what stage s keeps of the micro-batches in flight: pp - s of 1F1B.
std::function<int64_t(int, int)> bytes_of_stage(const ModelCost& cost, const ResolvedLayout& layout) {
  const bool sharded = layout.options.shard_level != ShardLevel::none;
  const int shards = sharded ? layout.shard : 1;
  return [&cost, shards, pp = layout.pp](int block, int stage) {
    constexpr int64_t kStateBytes = 16;
    const BlockCost& b = cost.blocks[block];
    return b.numel * kStateBytes / shards + (b.saved_bytes + b.output_bytes) * std::max(1, pp - stage % pp);
  };
}

std::vector<int> choose_stages(const Recipe& recipe, const ResolvedLayout& layout, const ModelCost& cost, int stages,
                               const std::vector<double>& seconds) {
  const std::string& choice = recipe.layout.stages;
  const int blocks = static_cast<int>(cost.blocks.size());
  if (choice == "even" && blocks >= stages) return even_stages(blocks, stages);
  if (choice != "auto" && choice != "even") return cut_by_hand(choice, blocks, stages);
  const auto most = static_cast<int64_t>(recipe.layout.stage_gb * (1 << 30));
  return balance_stages({.stages = stages, .seconds = seconds, .max_bytes = most, .bytes = bytes_of_stage(cost, layout)});
}

/// Which blocks' backward a schedule would split but cannot.
std::string whole_backwards_text(const Schedule& schedule, const ModelCost& cost) {
  const auto splits = [](const Task& task) { return task.kind == TaskKind::backward_input; };
  const bool any = std::any_of(schedule.tasks.begin(), schedule.tasks.end(),
                               [&](const std::vector<Task>& tasks) { return std::any_of(tasks.begin(), tasks.end(), splits); });
  std::string names;
  for (const BlockCost& block : cost.blocks) {
    if (any && !block.splits) names += (names.empty() ? "" : ", ") + block.name;
  }
  return names.empty() ? "" : fmt::format("  backward is not split, but run whole with its first part, in: {}\n", names);
}

std::string stages_text(const Recipe& recipe, const PipelineOptions& pipeline, const ModelCost& cost,
                        const std::vector<double>& seconds) {
  double total = 0.0, longest = 0.0;
  for (const double s : seconds) total += s;
  const size_t stages = pipeline.first_block.size();
  std::string text;
  for (size_t s = 0; s < stages; ++s) {
    const auto first = static_cast<size_t>(pipeline.first_block[s]);
    const size_t last = s + 1 < stages ? static_cast<size_t>(pipeline.first_block[s + 1]) : cost.blocks.size();
    double share = 0.0;
    for (size_t b = first; b < last; ++b) share += seconds[b];
    longest = std::max(longest, share);
    const std::string names =
        last == first + 1 ? cost.blocks[first].name : cost.blocks[first].name + " .. " + cost.blocks[last - 1].name;
    text += fmt::format("  stage {} on pipeline rank {}: {} ({:.1f} % of the work)\n", s, pipeline.given.rank_of_stage[s],
                        names, 100.0 * share / total);
  }
  text += whole_backwards_text(pipeline.given, cost);
  const std::string by = recipe.layout.profile.empty() ? "counted operations" : "times of " + recipe.layout.profile;
  const std::string how = recipe.layout.stages == "auto" ? "balanced by " + by : "as layout.stages says";
  const double ideal = total / static_cast<double>(stages);
  return fmt::format("{} stages, {}; the slowest has {:.2f} times an even share\n{}", stages, how, longest / ideal, text);
}

/// The sums over the blocks of each stage.
std::vector<StageTimes> stage_times(const std::vector<BlockWork>& blocks, const std::vector<int>& first_block) {
  std::vector<StageTimes> result;
  for (size_t s = 0; s < first_block.size(); ++s) {
    StageTimes sum{.forward = 0.0, .backward_input = 0.0, .backward_weight = 0.0, .whole_backward = 0.0};
    const size_t last = s + 1 < first_block.size() ? static_cast<size_t>(first_block[s + 1]) : blocks.size();
    for (auto b = static_cast<size_t>(first_block[s]); b < last; ++b) {
      const StageTimes& times = blocks[b].times;
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

/// The automatic schedule goes by the times of stages that are cut beforehand, a stage a rank; the others by their shape.
void plan_pipeline(const Recipe& recipe, Plan& plan) {
  PipelineOptions& pipeline = plan.layout.options.pipeline;
  const Hardware hardware = recipe.layout.profile.empty() ? counted_operations() : load_hardware(recipe.layout.profile);
  check_micro_batch(hardware, plan.layout.micro_batch);
  const std::vector<BlockWork> work = block_work(plan.cost, plan.layout.options, plan.layout.counts, hardware);
  const std::vector<double> seconds = block_seconds(work);
  const PipelineShape shape = {
      .ranks = plan.layout.pp, .chunks = pipeline.chunks, .micro_batches = plan.layout.micro_batches_per_rank};
  ScheduleInputs inputs;
  if (pipeline.schedule == "csv") inputs.csv = read_file("schedule (layout.schedule_file)", recipe.layout.schedule_file);
  if (pipeline.schedule == "auto") {
    pipeline.first_block = choose_stages(recipe, plan.layout, plan.cost, plan.layout.pp, seconds);
    const int64_t most = recipe.layout.schedule_activations;
    inputs.costs = {.stages = stage_times(work, pipeline.first_block),
                    .max_activations = static_cast<double>(most > 0 ? most : plan.layout.pp),
                    .goal = Goal::makespan};  // updates wait for the loss's total, so for all ranks
  }
  pipeline.given = make_schedule(pipeline.schedule, shape, inputs);
  pipeline.first_block = choose_stages(recipe, plan.layout, plan.cost, pipeline.given.num_stages(), seconds);
  plan.stages_text = stages_text(recipe, pipeline, plan.cost, seconds);
}

}  // namespace

Plan plan(const Recipe& recipe, int world_size) {
  Plan plan;
  plan.layout = resolve(recipe, world_size);
  plan.cost = model_cost(recipe, plan.layout.micro_batch, plan.layout.options, recipe.run.reproducible_slots > 0);
  try {
    if (plan.layout.pp > 1) plan_pipeline(recipe, plan);
    plan.program = build_program(plan.cost, step_layout(plan.layout.options, plan.layout.counts));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", recipe.path, error.what()));
  }
  verify(plan.program);
  return plan;
}

}  // namespace weft
