// ScheduleTable: the schedules of a search, each made once.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "weft/program/pipeline/schedule.h"

namespace weft {

/// A schedule, and what bounds need to know of it.
struct ScheduleFacts {
  Schedule schedule = {};
  std::string why_not = {};  ///< not empty: there is no such schedule
  bool splits = false;       ///< splits backward
  /// By rank and stage: micro-batches in flight, when the rank's stages together have the most.
  std::vector<std::vector<int>> in_flight = {};
  std::vector<int> first_stage = {};  ///< by rank
};

/// Schedules by name and shape.
class ScheduleTable {
 public:
  /// Returns the facts of a schedule; `chunks` as in PipelineShape.
  const ScheduleFacts& at(const std::string& name, int ranks, int chunks, int micro_batches);

 private:
  std::map<std::tuple<std::string, int, int, int>, ScheduleFacts> known_;
};

}  // namespace weft
