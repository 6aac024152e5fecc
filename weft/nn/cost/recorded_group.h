// recorded_group: a group that moves no data and records its calls, so that a block on the meta device shows what it sends.
// RecordedContext holds such groups.
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
  std::string group;       ///< the group's name
  int rounds = 1;          ///< consecutive messages: 2 (n-1) for an all-reduce, n-1 for its halves, 1 for a message
  int64_t wire_bytes = 0;  ///< sent by this rank (comm/group.h)
  double begins_at = 0.0;  ///< floating-point operations before the call
  double waited_at = 0.0;  ///< floating-point operations before the wait on its Work

  bool operator==(const RecordedCall&) const = default;  ///< member by member
};

/// Calls in the order in which they began.
class RecordedCalls {
 public:
  /// `flops` returns the floating-point operations so far; empty: 0.
  explicit RecordedCalls(std::function<double()> flops = {}) : flops_(std::move(flops)) {}
  /// Adds a call that begins now; returns its number.
  int64_t begin(RecordedCall call);
  /// Marks call `number` as awaited now, unless it was already awaited or taken.
  void await(int64_t number);
  /// Returns the calls since the last take().
  std::vector<RecordedCall> take();

 private:
  double now() const { return flops_ ? flops_() : 0.0; }

  std::function<double()> flops_;
  std::vector<RecordedCall> calls_;
  std::vector<bool> awaited_;
  int64_t taken_ = 0;
};

/// Returns a group of `size` ranks with that name, in which this rank is the first. It adds its calls to `record`; tensors keep
/// their values, if they have any (on the meta device they do not).
Group recorded_group(const std::string& name, int size, std::shared_ptr<RecordedCalls> record);

/// Groups through which a block communicates, and the calls it makes on them.
class RecordedContext {
 public:
  /// A context with the groups and settings of these options; `flops` as for RecordedCalls.
  RecordedContext(const CostOptions& options, std::function<double()> flops)
      : record_(std::make_shared<RecordedCalls>(std::move(flops))) {
    context_.tp = recorded_group("tp", options.tp, record_);
    context_.cp = recorded_group("cp", options.cp, record_);
    context_.batch = recorded_group("batch", options.batch_ranks, record_);
    context_.layout = options.layout;
    context_.target = options.target;
  }

  const Context& context() const { return context_; }  ///< for running blocks
  /// Returns the calls since the last take().
  std::vector<RecordedCall> take() const { return record_->take(); }

 private:
  std::shared_ptr<RecordedCalls> record_;
  Context context_;
};

}  // namespace weft
