// RunLength: a stretch of a run, as written in recipes: 500 (steps), "500 steps", "2 epochs", "1e6 samples", "3e9 tokens", "10
// min".
//
// Epochs and tokens become samples once the data is known, rounded up; an action due after a length happens after the first
// step that reaches it. Multiples are counted in samples, so that uneven epochs do not drift.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/base/batch_sizes.h"

namespace weft {

/// The unit of a length.
enum class LengthUnit { steps, samples, tokens, epochs, seconds };

/// Progress of a run in each unit.
struct RunClock {
  double steps = 0.0;    ///< done
  double samples = 0.0;  ///< trained on
  double tokens = 0.0;   ///< trained on; 0 for models that do not read tokens
  double epochs = 0.0;   ///< samples / samples in the data
  double seconds = 0.0;  ///< training time, in this process and those it resumed from

  double of(LengthUnit unit) const;  ///< progress in that unit
};

/// Sizes that convert lengths to samples and steps.
struct RunMeasure {
  int64_t epoch_samples = 1;  ///< training samples in an epoch
  int64_t step_samples = 1;   ///< the global batch
  BatchRamp ramp = {};        ///< earlier steps with other batches
  int64_t sample_tokens = 0;  ///< 0 for models that do not read tokens
};

/// A stretch of a run; unset if `amount` is 0.
struct RunLength {
  double amount = 0.0;                  ///< above 0
  LengthUnit unit = LengthUnit::steps;  ///< unit of the amount

  explicit operator bool() const { return amount > 0.0; }  ///< is set
  /// Returns true if a multiple of the length lies after `before` and not after `now`.
  bool passed(const RunClock& before, const RunClock& now) const;
  /// Returns the length in whole steps or samples, or in seconds: units that passed() compares exactly.
  RunLength counted_by(const RunMeasure& measure) const;
  /// Returns the first step that reaches the length, counted from 1; whole, possibly beyond integer range. Not for seconds.
  double steps(const RunMeasure& measure) const;

  bool operator==(const RunLength&) const = default;  ///< compares every member
};

/// Parses a number above 0 with a unit; empty for any other text.
std::optional<RunLength> parse_run_length(const std::string& text);
/// Returns the length as written in recipes: "500", "2 epochs".
std::string run_length_text(const RunLength& length);

}  // namespace weft
