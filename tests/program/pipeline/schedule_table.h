// Every schedule, and the lists and programs of a model in as many stages.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/program/toy.h"
#include "weft/program/build/build.h"
#include "weft/program/build/make_schedule.h"

namespace weft {

struct NamedSchedule {
  std::string name;
  int chunks = 1;                  ///< stages per rank
  bool multiple_of_ranks = false;  ///< constraint on the micro-batches
  Schedule (*make)(const PipelineShape&) = nullptr;

  Schedule of(int ranks, int micro_batches) const {
    return make({.ranks = ranks, .chunks = chunks, .micro_batches = micro_batches});
  }
};

/// Schedules made from a shape alone; with variable chunks both 2 and 3 of them ("interleaved of 3").
inline const std::vector<NamedSchedule>& schedule_table() {
  static const std::vector<NamedSchedule> all = [] {
    std::vector<NamedSchedule> table;
    for (const ScheduleKind& kind : schedule_kinds()) {
      const bool chosen = kind.chunks == ScheduleKind::kChosen;
      const std::string name(kind.name);
      if (kind.make) table.push_back({name, chosen ? 2 : kind.chunks, kind.in_rounds, kind.make});
      if (kind.make && chosen) table.push_back({name + " of 3", 3, kind.in_rounds, kind.make});
    }
    return table;
  }();
  return all;
}

inline const NamedSchedule& schedule_named(const std::string& name) {
  return *std::find_if(schedule_table().begin(), schedule_table().end(), [&](const auto& one) { return one.name == name; });
}

/// One list per pipeline rank, with blocks spread evenly over the stages.
inline std::vector<InstructionList> lists_of(const ModelCost& model, const Schedule& schedule) {
  const int blocks = static_cast<int>(model.blocks.size());
  return stage_lists(model, schedule, stage_blocks(model, schedule, even_stages(blocks, schedule.num_stages())));
}

/// `model` with a splittable backward in every block.
inline ModelCost splittable(ModelCost model) {
  for (BlockCost& block : model.blocks) {
    block.splits = true;
    block.input_flops = block.backward_flops / 4;
    block.deferred_bytes = block.saved_bytes / 2;
  }
  return model;
}

/// `layout` with the pipeline of this schedule.
inline StepLayout pipelined(StepLayout layout, const NamedSchedule& schedule, int pp, int micro_batches) {
  layout.pp = pp;
  layout.micro_batches = micro_batches;
  layout.schedule = schedule.of(pp, micro_batches);
  return layout;
}

}  // namespace weft
