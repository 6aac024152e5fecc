// PendingResults: results of steps, which the host may read when the next step is under way.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <deque>
#include <optional>

#include "weft/engine/results.h"

namespace weft {

struct StepFacts;

class PendingResults {
 public:
  explicit PendingResults(at::Device device) : device_(device) {}

  /// Adds a step whose numbers the host knows.
  void add(int64_t step, const StepResult& result) { pending_.push_back({.step = step, .result = result}); }
  /// Adds a step whose numbers (nn/device_kernels/step_numbers.h), of these facts, the device will have made: they are copied
  /// behind its work.
  void add(int64_t step, const at::Tensor& numbers, const StepFacts& facts);
  /// Takes the oldest, once its numbers are on the host. Throws FailedStep if they refuse the step; all are dropped then.
  StepResult take();
  void clear();
  /// Number of steps added and not taken.
  int count() const { return static_cast<int>(pending_.size()); }
  /// Of those, steps whose numbers the host has not read.
  int unread() const;
  bool is_oldest_unread() const { return !pending_.empty() && pending_.front().numbers.defined(); }
  /// What later steps' updates are gated by (step_numbers.h), on the device. Once a step is refused, no update is made until
  /// clear().
  const at::Tensor& gate();

 private:
  struct Pending {
    int64_t step = 0;
    StepResult result = {};
    at::Tensor numbers = {};  ///< pinned; undefined: known
    int64_t votes = 0;        ///< of them
    std::optional<c10::Event> copied = {};
  };

  at::Device device_;
  at::Tensor gate_;
  std::deque<Pending> pending_;
};

}  // namespace weft
