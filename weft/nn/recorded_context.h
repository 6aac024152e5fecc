// RecordedContext: a Context whose groups write down what blocks ask of them.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/cost_options.h"
#include "weft/nn/recorded_group.h"

namespace weft {

/// The groups that a block meets others in, and what it has asked of them.
class RecordedContext {
 public:
  /// A context with the groups and choices of these options; `flops` as for CallRecord.
  RecordedContext(const CostOptions& options, std::function<double()> flops)
      : record_(std::make_shared<CallRecord>(std::move(flops))), context_{.recompute_parts = options.recompute_parts} {
    context_.tp = recorded_group("tp", options.tp, record_);
    context_.cp = recorded_group("cp", options.cp, record_);
    context_.batch = recorded_group("batch", options.batch_ranks, record_);
    context_.batch_pieces = options.batch_pieces;
    context_.sequence_parallel = options.sequence_parallel;
    context_.tp_chunks = options.tp_chunks;
    context_.attention_over = options.attention_over;
  }

  const Context& context() const { return context_; }  ///< that blocks run in
  /// The calls since the last time.
  std::vector<RecordedCall> take() const { return record_->take(); }

 private:
  std::shared_ptr<CallRecord> record_;
  Context context_;
};

}  // namespace weft
