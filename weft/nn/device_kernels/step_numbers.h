// Numbers of a step, made on the device from its losses and gradients, and whether its updates may be made: the host reads
// them when the next step is under way. Compiled by g++ for the CPU's path and the checked device, and by nvcc.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "weft/base/exact_digits.h"
#include "weft/base/host_device.h"
#include "weft/nn/device_kernels/loss_scale.h"

namespace weft {

/// Of which the host reads loss, targets that counted, gradient norm, what becomes of the step and what divides gradients; then
/// votes, and for a noise scale the mean squared norm of the small batches' gradients. Behind them is the divisor with
/// clipping, for the device.
inline constexpr int kStepNumbers = 5, kDeviceNumbers = 1;
inline constexpr int kOutcome = 3, kDivisor = 4;
inline constexpr double kStepMade = 0.0;     ///< its updates are made
inline constexpr double kStepRefused = 1.0;  ///< something is wrong; no later step makes updates either
inline constexpr double kStepSkipped = 2.0;  ///< a gradient overflowed: the loss scale is halved
/// What updates divide gradients by; 1 if this step makes none; 1 if no later step does.
inline constexpr int kGateNumbers = 3;

/// What is known of a step before it.
struct StepFacts {
  int64_t places = 0;              ///< columns of the losses
  int64_t votes = 0;               ///< numbers that come after the losses
  double all_micro_batches = 1.0;  ///< of the global batch
  double nominal_targets = 0.0;    ///< of a micro-batch; 0: the losses' third row has it
  double loss_scale = 1.0;         ///< if the device keeps none
  bool has_norm = true;  ///< `found` is an exact sum of squares; otherwise the largest magnitude, as the bits of a float32
  double clip = 0.0;     ///< largest norm; 0: not clipped
  double most = 0.0;     ///< largest gradient that an update takes
  /// Of the global batch, for a noise scale: the digits of their gradients' squares come before the votes. 0: none do.
  double small_batches = 0.0;
};

/// Elements of a step's numbers.
WEFT_HOST_DEVICE inline int64_t count_of_numbers(const StepFacts& facts) {
  return kStepNumbers + facts.votes + (facts.small_batches > 0.0 ? 1 : 0) + kDeviceNumbers;
}

/// Mean squared norm of the small batches' gradients. Gradients are sums over samples, scaled for all M micro-batches, so the
/// mean gradient of one micro-batch is M times its sum.
WEFT_HOST_DEVICE inline double mean_small_squares(const StepFacts& facts, double squares, double divisor) {
  const double factor = facts.all_micro_batches / divisor;
  return squares * factor * factor / facts.small_batches;
}

/// The sum whose digits are given as float64, which represents them exactly.
WEFT_HOST_DEVICE inline double value_of_digits(const double* digits) {
  int64_t words[kSumWords];
  for (int i = 0; i < kSumWords; ++i) words[i] = static_cast<int64_t>(digits[i]);
  return exact_value(words);
}

/// False for infinite numbers and NaN.
WEFT_HOST_DEVICE inline bool is_finite(double x) { return x - x == 0.0; }

/// Sums of a step's losses, in the order of their places, and what its gradients are divided by.
struct LossTotals {
  double sum = 0.0, count = 0.0, divisor = 0.0;
};

/// Adds up `losses` [3 x places].
WEFT_HOST_DEVICE inline LossTotals loss_totals(const StepFacts& facts, const double* losses) {
  LossTotals totals;
  for (int64_t i = 0; i < facts.places; ++i) {
    totals.sum += losses[i];
    totals.count += losses[facts.places + i];
  }
  const double nominal = facts.nominal_targets > 0.0 ? facts.nominal_targets : losses[2 * facts.places];
  totals.divisor = totals.count / (nominal * facts.all_micro_batches) * facts.loss_scale;
  return totals;
}

/// What a step's numbers are made of, and where they go.
struct StepBuffers {
  const double* losses = nullptr;    ///< [3 x places + kSumWords with small batches + votes]
  const int64_t* found = nullptr;    ///< StepFacts::has_norm
  double* numbers = nullptr;         ///< [count_of_numbers()], made
  float* gate = nullptr;             ///< [kGateNumbers], made; one that refuses steps keeps doing so
  DeviceLossScale* scale = nullptr;  ///< that of the step, changed to the next one's; null: StepFacts::loss_scale
  float* rate = nullptr;             ///< with `scale`: UpdateRate, whose number is lowered by skips that the host did not know
};

/// Makes the numbers and the gate of a step.
WEFT_HOST_DEVICE inline void make_step_numbers(StepFacts facts, const StepBuffers& memory) {
  constexpr double kLargestFloat = 3.4028234663852886e38;
  const double* losses = memory.losses;
  double* numbers = memory.numbers;
  float* gate = memory.gate;
  if (memory.scale != nullptr) facts.loss_scale = memory.scale->loss.scale;
  const auto [sum, count, divisor] = loss_totals(facts, losses);
  bool has_losses = count > 0.0;
  for (int64_t i = 0; i < facts.places; ++i) has_losses = has_losses && is_finite(losses[i]);
  double norm = 0.0, factor = 1.0, largest = 0.0;
  if (facts.has_norm) {
    norm = std::sqrt(exact_value(memory.found)) / divisor;
    if (facts.clip > 0.0 && norm > facts.clip) factor = facts.clip / norm;
    largest = norm * factor;
  } else {
    const auto bits = static_cast<uint32_t>(*memory.found);
    float magnitude = 0.0f;
    memcpy(&magnitude, &bits, sizeof magnitude);
    largest = static_cast<double>(magnitude) / divisor;
  }
  const double by = divisor / factor;
  const bool is_refused = gate[2] != 0.0f || !has_losses;
  const bool is_made = !is_refused && is_finite(norm) && largest <= facts.most && by <= kLargestFloat;
  const bool has_bad_statistics = facts.has_norm && memory.found[kSumDigits] >= kBadStatistics;  // no loss scale helps
  const bool is_skipped =
      !is_refused && !is_finite(norm) && !has_bad_statistics && memory.scale != nullptr && can_skip(memory.scale->loss);
  numbers[0] = sum / count;
  numbers[1] = count;
  numbers[2] = norm;
  numbers[kOutcome] = is_made ? kStepMade : is_skipped ? kStepSkipped : kStepRefused;
  numbers[kDivisor] = divisor;
  const double* more = losses + 3 * facts.places;
  if (facts.small_batches > 0.0) {
    numbers[kStepNumbers + facts.votes] = mean_small_squares(facts, value_of_digits(more), divisor);
    more += kSumWords;
  }
  for (int64_t i = 0; i < facts.votes; ++i) numbers[kStepNumbers + i] = more[i];
  numbers[count_of_numbers(facts) - kDeviceNumbers] = by;
  gate[0] = static_cast<float>(by);
  gate[1] = is_made ? 0.0f : 1.0f;
  if (!is_made && !is_skipped) gate[2] = 1.0f;
  if (memory.scale == nullptr) return;
  memory.rate[1] -= static_cast<float>(memory.scale->loss.skipped_steps - memory.scale->known_skips);
  if (is_made) count_good_step(memory.scale->loss);
  if (is_skipped) count_skipped_step(memory.scale->loss);
}

}  // namespace weft
