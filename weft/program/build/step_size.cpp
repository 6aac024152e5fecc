#include "weft/program/build/step_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/base/units.h"

namespace weft {
namespace {

// Instructions of one block on one micro-batch, for forward and unsplit backward.
double of_block_and_micro_batch(const StepLayout& layout) {
  double count = 2.0;
  const double recomputed = layout.recompute.every > 0 ? 1.0 / layout.recompute.every : 0.0;
  count += 2.0 * recomputed;  // drop and recompute
  if (layout.offload.activations) count += 2.0 * recomputed;
  if (layout.shard_level >= ShardLevel::gradients && !layout.keep_order) count += 1.0;
  if (layout.shard_level == ShardLevel::parameters) {
    const double gathers = layout.reshard_after_forward ? 2.0 : 1.0;
    count += 2.0 * gathers;  // each has a release
    if (layout.offload.weights) count += 2.0 * gathers;
  }
  return count;
}

// Inputs, outputs and output gradients are sent and received, except the master's own; weights and gradients once per rank.
double count_with_master(double blocks, const StepLayout& layout) {
  const double ranks = layout.pp;
  const double a_micro_batch = blocks * of_block_and_micro_batch(layout) + 2.0 + 6.0 * (ranks - 1.0) / ranks;
  const double slots = layout.slots > 1 ? static_cast<double>(layout.slots) * ranks : 0.0;
  return a_micro_batch * layout.micro_batches + 4.0 * (ranks - 1.0) * blocks + blocks + 2.0 * ranks + slots;
}

}  // namespace

int64_t whole_blocks(const ModelCost& model) {
  return std::count_if(model.blocks.begin(), model.blocks.end(), [](const BlockCost& block) { return !block.splits; });
}

std::string advice_for_at_most(int64_t most, int64_t slots, const ScheduleSize& schedule) {
  const int64_t unit = std::lcm(slots, schedule.unit);
  const int64_t allowed = std::max<int64_t>(most, 0) / unit * unit;
  if (allowed >= schedule.fewest_micro_batches && allowed > 0) {
    return fmt::format(
        "use {} micro-batches or fewer: larger ones (batch.micro), fewer samples per step (batch.global) or more "
        "data-parallel ranks",
        allowed);
  }
  std::string fewer;
  if (schedule.fewest_micro_batches > 1) fewer += "fewer pipeline ranks (layout.pp), ";
  if (slots > 1) fewer += "fewer slots (run.reproducible_slots), ";
  if (!fewer.empty()) fewer += "or ";
  return fmt::format("it needs {} micro-batches or more: use {}fewer blocks",
                     round_up(std::max(schedule.fewest_micro_batches, unit), unit), fewer);
}

double count_instructions(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule) {
  const auto of_blocks = static_cast<double>(blocks);
  if (layout.master) return count_with_master(of_blocks, layout);
  const double transfers = 4.0 * static_cast<double>(schedule.stages - 1);  // outputs and their gradients, on both sides
  const double loads_and_loss = layout.pp > 1 ? 3.0 : 2.0;
  const double second_parts = schedule.splits_backward ? of_blocks - static_cast<double>(schedule.whole_blocks) : 0.0;
  const double a_micro_batch = of_blocks * of_block_and_micro_batch(layout) + second_parts + transfers + loads_and_loss;
  const double updates = 2.0 + (layout.offload.optimizer ? 2.0 : 0.0) + (layout.offload.weights ? 2.0 : 0.0);
  const double slots = layout.slots > 1 ? static_cast<double>(layout.slots) * layout.pp : 0.0;
  const double squares = layout.noise_scale ? static_cast<double>(layout.slots) * of_blocks : 0.0;
  return a_micro_batch * layout.micro_batches + updates * of_blocks + slots + squares;
}

bool is_countable(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule) {
  const double count = count_instructions(blocks, layout, schedule);
  return count <= static_cast<double>(kMostInstructions) && layout.pp * blocks <= kMostPlaces;
}

void check_step_size(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule) {
  if (is_countable(blocks, layout, schedule)) return;
  if (schedule.stages > blocks) {
    throw InputError(fmt::format("layout: {} blocks cannot be cut into {} stages; use fewer", blocks, schedule.stages));
  }
  if (layout.pp * blocks > kMostPlaces) {
    throw InputError(fmt::format("layout: {} blocks allow at most {} pipeline ranks, not {}; use fewer, or fewer blocks",
                                 blocks, kMostPlaces / blocks, layout.pp));
  }
  StepLayout none = layout, one = layout;
  none.micro_batches = 0;
  one.micro_batches = 1;
  const double beside = count_instructions(blocks, none, schedule);
  const double a_micro_batch = count_instructions(blocks, one, schedule) - beside;
  const auto most = static_cast<int64_t>((static_cast<double>(kMostInstructions) - beside) / a_micro_batch);
  throw InputError(fmt::format(
      "layout: {} blocks and {} micro-batches per rank make a step of {} instructions{}, more than the limit of {}; {}", blocks,
      layout.micro_batches, format_count(count_instructions(blocks, layout, schedule)),
      schedule.stages > 1 ? fmt::format(" over {} stages", schedule.stages) : "",
      format_count(static_cast<double>(kMostInstructions)), advice_for_at_most(most, layout.slots, schedule)));
}

}  // namespace weft
