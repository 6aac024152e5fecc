// RecordedRun: what a run's folder says of its start and of single steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/report/records/read_records.h"

namespace weft {

/// Numbers that a run recorded of a step; empty: it recorded none.
struct RecordedStep {
  std::optional<double> loss = {}, norm = {};
};

/// Reads metrics.jsonl and events.jsonl; empty where they are missing.
class RecordedRun {
 public:
  explicit RecordedRun(const std::string& folder);

  const std::optional<EventRecord>& start() const { return start_; }  ///< the newest
  int64_t last_step() const;                                          ///< that has a record, counted from 1; 0: none
  RecordedStep of(int64_t step) const;

 private:
  MetricsReader metrics_;
  std::optional<EventRecord> start_;
};

}  // namespace weft
