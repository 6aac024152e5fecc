// RecordedContext: a Context whose groups write down what blocks ask of them.
#pragma once

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
  explicit RecordedContext(const CostOptions& options) : context_{.recompute_parts = options.recompute_parts} {
    context_.tp = recorded_group("tp", options.tp, calls_);
    context_.cp = recorded_group("cp", options.cp, calls_);
    context_.sequence_parallel = options.sequence_parallel;
    context_.attention_over = options.attention_over;
  }

  const Context& context() const { return context_; }
  /// The calls since the last time.
  std::vector<RecordedCall> take() const { return std::exchange(*calls_, {}); }

 private:
  std::shared_ptr<std::vector<RecordedCall>> calls_ = std::make_shared<std::vector<RecordedCall>>();
  Context context_;
};

}  // namespace weft
