// Loading of micro-batches and forward pass of a step.
#include <ATen/ops/sub.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include <optional>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/engine/rank_tokens.h"
#include "weft/engine/step_run.h"
#include "weft/nn/graph.h"

namespace weft {

void StepRun::load(int micro, const NextMicroBatch& next) {
  if (micro != loaded_++) {
    throw Error(
        fmt::format("step {}: the program loads micro-batch {} but the loader hands out micro-batch {}; verify the program",
                    step_, micro, loaded_ - 1));
  }
  InFlight& flight = in_flight_[micro];
  MicroBatch batch = first_batch_ ? *std::exchange(first_batch_, std::nullopt) : next();
  if (batch.upload) batch.upload->wait();
  flight.batch = own_tokens(std::move(batch), options_.groups.along(kContextAxis));
  if (stage_ranks_.front() != options_.groups.along(kPipelineAxis).rank()) {
    flight.batch.inputs.clear();  // loaded for its targets
  } else if (flight.batch.inputs.empty()) {
    throw InputError(fmt::format("step {}, micro-batch {}: it has no inputs", step_ + 1, options_.first_micro_batch + micro));
  }
  flight.batch.inputs = without_gaps(std::move(flight.batch.inputs));
  bool converts = false;
  for (at::Tensor& input : flight.batch.inputs) {
    if (!input.is_floating_point()) continue;
    const at::Tensor given = std::exchange(input, input.to(model_.options().weight_dtype));
    converts = converts || !input.is_same(given);
  }
  if (!converts || !flight.batch.upload) return;
  Tensors used = flight.batch.inputs;
  used.push_back(flight.batch.target);
  flight.batch.upload->keep(used);
}

int64_t StepRun::first_sample_of_step() const {
  return options_.first_sample + (step_ - options_.first_step) * options_.all_micro_batches * options_.micro_batch;
}

int64_t StepRun::first_sample(int micro) const {
  return first_sample_of_step() + (options_.first_micro_batch + micro) * options_.micro_batch;
}

/// Every micro-batch starts from the statistics (BatchNorm) that the step began with; their changes are summed like gradients.
/// Recompute does not change them again.
Tensors StepRun::run_block(int block, InFlight& flight, const Context& context) {
  const GroupRange range = model_.statistics_range(block);
  const auto forward = [&] { return calls.forward(block, flight.inputs[block], context); };
  if (range.begin == range.end) return forward();
  // The graph keeps the statistics for backward but, while training, does not read them.
  at::Tensor statistics = model_.statistics(block);
  const at::Tensor before = statistics.clone();
  const auto restore = [&] {
    c10::NoGradGuard no_grad;
    statistics.copy_(before);
  };
  Tensors outputs;
  try {
    outputs = forward();
    c10::NoGradGuard no_grad;
    if (!flight.statistics[block].defined()) flight.statistics[block] = at::sub(statistics, before);
  } catch (...) {
    try {
      restore();
    } catch (...) {  // report the first error
    }
    throw;
  }
  restore();
  return outputs;
}

/// Blocks leave gradients partial where the program sums them.
Context StepRun::context_of(int micro) const {
  BlockLayout layout = options_.blocks;
  layout.partial_gradients = program_->partial_gradients;
  return {.seed = options_.seed,
          .step = step_,
          .first_sample = first_sample(micro),
          .training = true,
          .tp = options_.groups.along(kTensorAxis),
          .cp = options_.groups.along(kContextAxis),
          .batch = options_.groups.along(program_->batch_axes),
          .layout = layout,
          .place = values_.place()};
}

CheckedCall StepRun::checked_call(const char* pass, int block, int micro) const {
  return {.pass = pass,
          .block = block,
          .micro_batch = options_.first_micro_batch + micro,
          .first_sample = first_sample(micro),
          .samples = options_.micro_batch};
}

/// Returns whether the block makes the losses (BlockLayout::loss_chunk).
bool StepRun::takes_targets(int block) const { return options_.blocks.loss_chunk > 0 && block + 1 == model_.num_blocks(); }

void StepRun::forward(int block, int micro) {
  InFlight& flight = in_flight_[micro];
  if (flight.inputs[block].empty()) {
    flight.inputs[block] = block == 0 ? flight.batch.inputs : detach_outputs(flight.outputs[block - 1]);
  }
  Context context = context_of(micro);
  if (takes_targets(block)) context.target = flight.batch.target;
  if (takes_targets(block) && !context.target.defined()) {
    throw Error(
        fmt::format("step {}, micro-batch {}: the program runs the last block, which makes the losses (layout.loss_chunk), "
                    "before it has loaded the targets; build it with ModelCost::head_takes_targets",
                    step_ + 1, options_.first_micro_batch + micro));
  }
  if (checks) checks->begin_forward(checked_call("forward", block, micro), flight.inputs[block], /*is_data=*/block == 0);
  flight.outputs[block] = run_block(block, flight, context);
  if (checks) checks->end_forward(flight.outputs[block]);
  flight.ends[block] = flight.outputs[block];
}

/// Drops the output with its graph; the block that took it as input keeps it.
void StepRun::drop(int block, int micro) {
  in_flight_[micro].outputs[block].clear();
  in_flight_[micro].ends[block] = {};
}

}  // namespace weft
