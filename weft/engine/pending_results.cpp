#include "weft/engine/pending_results.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "weft/engine/failed_step.h"
#include "weft/nn/device_kernels/step_numbers.h"

namespace weft {

void PendingResults::add(int64_t step, const at::Tensor& numbers, const StepFacts& facts) {
  Pending pending{.step = step, .votes = facts.votes};
  const at::Tensor read = numbers.narrow(0, 0, numbers.numel() - kDeviceNumbers);
  pending.numbers = at::empty(read.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
  pending.numbers.copy_(read, /*non_blocking=*/true);
  pending.copied.emplace(device_.type());
  pending.copied->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  pending_.push_back(std::move(pending));
}

StepResult PendingResults::take() {
  Pending oldest = std::move(pending_.front());
  pending_.pop_front();
  if (!oldest.numbers.defined()) return oldest.result;
  oldest.copied->synchronize();
  const auto* numbers = oldest.numbers.const_data_ptr<double>();
  if (numbers[kOutcome] == kStepRefused) {
    clear();
    throw FailedStep(fmt::format(
        "step {}: a loss or a gradient is not finite or too large, an id is out of range, or no target counts; nothing was "
        "updated (Engine::repeat() finds out which)",
        oldest.step + 1));
  }
  const double* after_votes = numbers + kStepNumbers + oldest.votes;
  return {.loss = numbers[0],
          .count = static_cast<int64_t>(numbers[1]),
          .norm = numbers[2],
          .small_squares = after_votes < numbers + oldest.numbers.numel() ? *after_votes : 0.0,
          .skipped = numbers[kOutcome] == kStepSkipped,
          .divisor = numbers[kDivisor],
          .votes = {numbers + kStepNumbers, after_votes}};
}

void PendingResults::clear() {
  pending_.clear();
  gate_.reset();
}

int PendingResults::unread() const {
  return static_cast<int>(
      std::count_if(pending_.begin(), pending_.end(), [](const Pending& each) { return each.numbers.defined(); }));
}

const at::Tensor& PendingResults::gate() {
  if (!gate_.defined()) gate_ = at::zeros({kGateNumbers}, at::TensorOptions(at::kFloat).device(device_));
  return gate_;
}

}  // namespace weft
