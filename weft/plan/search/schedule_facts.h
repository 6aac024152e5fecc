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
  /// By stage: micro-batches in flight, and those of which only the second part of the backward is left, at the time when its
  /// rank's stages have most.
  std::vector<int> in_flight = {}, deferred = {};
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
