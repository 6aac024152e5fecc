// state_bound: least time and memory of a layout, before a program exists.
//
// Time: the passes of pipeline_bound.h; then what sums of gradients leave to do after the last backward, or all that moves over
// the data-parallel axes if that takes longer, or the passes with what these collectives take from compute; then the updates,
// which wait for all ranks' gradients, and gathers of updated weights. Memory: the fullest rank's model states and activations.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/search/data_rings.h"
#include "weft/plan/search/layout_choice.h"
#include "weft/plan/search/pipeline_bound.h"
#include "weft/program/program.h"

namespace weft {

/// What bounds of a layout's states are made from.
struct StateInputs {
  const ModelCost& cost;
  const PassBounds& passes;
  const std::vector<RankBound>& ranks;  ///< by place on the pipeline axis
  int weight_bytes = 4;
  int gradient_bytes = 4;
  int micro_batches = 1;
  double offload_bytes_per_s = kFree;  ///< of the link to slower memory
  double taken_from_compute = 0.0;     ///< CollectiveCosts::taken_from_compute
  bool keeps_order = false;            ///< gradients are summed once per step, at every level
};

/// Least seconds of a step with these states.
double least_seconds(const StateInputs& inputs, const StateChoice& states, const DataRings& rings);

/// Least bytes of the fullest rank.
int64_t least_bytes(const StateInputs& inputs, const StateChoice& states);

}  // namespace weft
