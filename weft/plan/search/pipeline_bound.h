// pipeline_bound: least time and activations of each pipeline rank's passes, before a program exists.
//
// A rank starts after the stages before it have passed it the first micro-batch, works through all micro-batches, and after its
// last backward the stages before it have theirs to run. All of this as in task_times.h with the least times of pass_bounds.h;
// whatever else a step does only adds to it.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/search/pass_bounds.h"
#include "weft/plan/search/schedule_facts.h"
#include "weft/program/build/stages.h"
#include "weft/program/pipeline/task_times.h"
#include "weft/program/program.h"

namespace weft {

/// Least figures of a pipeline rank.
struct RankBound {
  double start_s = 0.0;                  ///< when its first micro-batch arrives
  double work_s = 0.0;                   ///< of all its passes
  double last_start_s = 0.0;             ///< when its last backward, of its first stage, starts
  double end_s = 0.0;                    ///< when all its passes have ended
  int64_t activation_bytes = 0;          ///< kept for backward at once
  int64_t moved_bytes = 0;               ///< part of them that offloading of activations may move
  std::vector<StageBlocks> stages = {};  ///< its blocks; the first of them is the first stage
};

/// Inputs of a pipeline's bound.
struct PipelineInputs {
  const ModelCost& cost;
  const PassBounds& passes;
  const ScheduleFacts& schedule;
  std::vector<int> first_block;  ///< of each stage
  int micro_batches = 1;
  double latency_s = 0.0;  ///< of a message between stages, at least
  double seconds_per_byte = 0.0;
};

/// Returns the bound of one pipeline rank with all blocks.
std::vector<RankBound> bound_without_pipeline(const ModelCost& cost, const PassBounds& passes, int micro_batches);

/// Returns the bounds of the pipeline ranks, in closed form.
std::vector<RankBound> pipeline_bound(const PipelineInputs& inputs);

/// Raises the bounds' times to those of the schedule's tasks, which takes time for each of them.
void refine(const PipelineInputs& inputs, std::vector<RankBound>& bounds);

/// Least seconds of a step's passes for any cut into stages.
double least_seconds(const PassBounds& passes, int ranks, int micro_batches);

}  // namespace weft
