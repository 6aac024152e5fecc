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
  flight.batch =
      own_tokens(first_batch_ ? *std::exchange(first_batch_, std::nullopt) : next(), options_.groups.along(kContextAxis));
  if (stage_ranks_.front() != options_.groups.along(kPipelineAxis).rank()) {
    flight.batch.inputs.clear();  // loaded for its targets
  } else if (flight.batch.inputs.empty()) {
    throw InputError(fmt::format("step {}, micro-batch {}: it has no inputs", step_ + 1, options_.first_micro_batch + micro));
  }
  flight.batch.inputs = without_gaps(std::move(flight.batch.inputs));
  for (at::Tensor& input : flight.batch.inputs) {
    if (input.is_floating_point()) input = input.to(model_.options().weight_dtype);
  }
}

int64_t StepRun::first_sample(int micro) const {
  const int64_t steps = step_ - options_.first_step;
  return options_.first_sample +
         (steps * options_.all_micro_batches + options_.first_micro_batch + micro) * options_.micro_batch;
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

Context StepRun::context_of(int micro) const {
  return {.seed = options_.seed,
          .step = step_,
          .first_sample = first_sample(micro),
          .training = true,
          .tp = options_.groups.along(kTensorAxis),
          .cp = options_.groups.along(kContextAxis),
          .batch = options_.groups.along(program_->batch_axes),
          .layout = options_.blocks};
}

void StepRun::forward(int block, int micro) {
  InFlight& flight = in_flight_[micro];
  if (flight.inputs[block].empty()) {
    flight.inputs[block] = block == 0 ? flight.batch.inputs : detach_outputs(flight.outputs[block - 1]);
  }
  flight.outputs[block] = run_block(block, flight, context_of(micro));
  flight.ends[block] = flight.outputs[block];
}

/// Drops the output with its graph; the block that took it as input keeps it.
void StepRun::drop(int block, int micro) {
  in_flight_[micro].outputs[block].clear();
  in_flight_[micro].ends[block] = {};
}

}  // namespace weft
