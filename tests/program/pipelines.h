// Pipelines of equal stages, and devices on which an operation takes a second.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/pipeline/shape.h"
#include "weft/program/schedules/gpipe.h"
#include "weft/program/schedules/interleaved.h"
#include "weft/program/schedules/naive.h"
#include "weft/program/schedules/one_f_one_b.h"
#include "weft/program/schedules/zb_h1.h"
#include "weft/program/schedules/zb_h2.h"
#include "weft/program/schedules/zb_v.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// What each block costs, whichever it is.
struct StageCost {
  int blocks = 1;  ///< a stage
  double forward_flops = 1.0;
  double input_flops = 1.0;   ///< of backward: the part for the block's input
  double weight_flops = 1.0;  ///< and the rest
  int64_t numel = 0;
  int64_t saved_bytes = 0;    ///< from a forward to its backward
  int64_t message_bytes = 0;  ///< from block to block
};

inline ModelCost equal_blocks(int count, const StageCost& cost) {
  ModelCost model{.name = "equal", .blocks = {}};
  for (int i = 0; i < count; ++i) {
    model.blocks.push_back({.name = fmt::format("block{}", i),
                            .parameters = cost.numel,
                            .numel = cost.numel,
                            .forward_flops = cost.forward_flops,
                            .backward_flops = cost.input_flops + cost.weight_flops,
                            .saved_bytes = cost.saved_bytes,
                            .output_bytes = cost.message_bytes,
                            .splits = true,
                            .input_flops = cost.input_flops});
  }
  return model;
}

/// As many blocks to each stage of the schedule; `mesh` tells what there is beside pp.
inline Program pipeline_program(const Schedule& schedule, const StageCost& cost = {}, const MeshSizes& mesh = {},
                                StepLayout layout = {}) {
  layout.pp = schedule.num_ranks();
  layout.schedule = schedule;
  layout.dp = mesh.dp;
  layout.shard = mesh.shard;
  layout.tp = mesh.tp;
  layout.micro_batches = schedule.micro_batches;
  return build_program(equal_blocks(schedule.num_stages() * cost.blocks, cost), layout);
}

/// Every schedule of the shape that takes it, with two chunks where it has several.
inline std::vector<Schedule> all_schedules(int ranks, int micro_batches) {
  const PipelineShape one = {.ranks = ranks, .micro_batches = micro_batches};
  const PipelineShape two = {.ranks = ranks, .chunks = 2, .micro_batches = micro_batches};
  return {naive_schedule(one), gpipe_schedule(one),       one_f_one_b_schedule(one), zb_h1_schedule(one),
          zb_h2_schedule(one), interleaved_schedule(two), zb_v_schedule(two)};
}

/// An operation takes a second, all else nothing; each rank is on a host of its own.
inline Hardware slow_device(const Link& link = {}) {
  return {.name = "slow", .flops = 1.0, .narrow_flops = 1.0, .intra_host = link, .inter_host = link};
}

}  // namespace weft
