// Pipelines of equal stages, and devices with one second per operation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/build/make_schedule.h"
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

/// Cost of every block.
struct StageCost {
  int blocks = 1;  ///< per stage
  double forward_flops = 1.0;
  double input_flops = 1.0;   ///< of backward: the input part
  double weight_flops = 1.0;  ///< of backward: the weight part
  int64_t numel = 0;
  int64_t saved_bytes = 0;    ///< kept from forward to backward
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

/// Equal stages of the schedule; `mesh` has the axes besides pp.
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

/// Every schedule made from a shape alone, with two chunks if variable.
inline std::vector<Schedule> all_schedules(int ranks, int micro_batches) {
  std::vector<Schedule> all;
  for (const ScheduleKind& kind : schedule_kinds()) {
    const int chunks = kind.chunks == ScheduleKind::kChosen ? 2 : kind.chunks;
    if (kind.make) all.push_back(kind.make({.ranks = ranks, .chunks = chunks, .micro_batches = micro_batches}));
  }
  return all;
}

/// One second per operation, everything else free; each rank is on its own host.
inline Hardware slow_device(const Link& link = {}) {
  return {.name = "slow", .flops = 1.0, .narrow_flops = 1.0, .intra_host = link, .inter_host = link};
}

}  // namespace weft
