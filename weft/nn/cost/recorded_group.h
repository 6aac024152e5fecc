// recorded_group: a group that moves nothing and writes down what it is asked for; so a block that runs on the meta device
// tells what it sends. RecordedContext has such groups.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/group.h"
#include "weft/nn/block.h"
#include "weft/nn/cost/cost_options.h"

namespace weft {

/// A call on a group.
struct RecordedCall {
  std::string group;        ///< its name
  int rounds = 1;           ///< messages one after another: 2 (n-1) for an all-reduce, n-1 for its halves, 1 for a message
  int64_t wire_bytes = 0;   ///< that this rank sends (comm/group.h)
  double begins_at = 0.0;   ///< floating-point operations that came before it
  double awaited_at = 0.0;  ///< those that came before its Work was waited for

  bool operator==(const RecordedCall&) const = default;  ///< all of it
};

/// Calls in the order in which they began.
class CallRecord {
 public:
  /// `flops` tells the floating-point operations so far; empty: 0.
  explicit CallRecord(std::function<double()> flops = {}) : flops_(std::move(flops)) {}
  /// Adds a call that begins now; returns its number.
  int64_t begin(RecordedCall call);
  /// Call `number` is waited for now, unless it has been, or was taken.
  void await(int64_t number);
  /// The calls since the last time.
  std::vector<RecordedCall> take();

 private:
  double now() const { return flops_ ? flops_() : 0.0; }

  std::function<double()> flops_;
  std::vector<RecordedCall> calls_;
  std::vector<bool> awaited_;
  int64_t taken_ = 0;
};

/// A group of `size` ranks with that name, this one the first, which adds its calls to `record`; its tensors keep their values,
/// or have none (the meta device).
Group recorded_group(const std::string& name, int size, std::shared_ptr<CallRecord> record);

/// The groups that a block meets others in, and what it has asked of them.
class RecordedContext {
 public:
  /// A context with the groups and choices of these options; `flops` as for CallRecord.
  RecordedContext(const CostOptions& options, std::function<double()> flops)
      : record_(std::make_shared<CallRecord>(std::move(flops))) {
    context_.tp = recorded_group("tp", options.tp, record_);
    context_.cp = recorded_group("cp", options.cp, record_);
    context_.batch = recorded_group("batch", options.batch_ranks, record_);
    context_.layout = options.layout;
  }

  const Context& context() const { return context_; }  ///< that blocks run in
  /// The calls since the last time.
  std::vector<RecordedCall> take() const { return record_->take(); }

 private:
  std::shared_ptr<CallRecord> record_;
  Context context_;
};

}  // namespace weft
