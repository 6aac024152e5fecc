// RunLength: a stretch of a run, as recipes say it: 500 (steps), "500 steps", "2 epochs", "1e6 samples", "3e9 tokens", "10
// min".
//
// Epochs and tokens are samples once the data is known, rounded up to whole ones; what is due after a length is due after the
// first step that reaches it. Multiples are counted in samples, so that uneven epochs do not drift.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/base/batch_sizes.h"

namespace weft {

/// What a length is counted in.
enum class LengthUnit { steps, samples, tokens, epochs, seconds };

/// Where a run is, in each of these.
struct RunClock {
  double steps = 0.0;    ///< done
  double samples = 0.0;  ///< trained on
  double tokens = 0.0;   ///< trained on; 0 for models that do not read tokens
  double epochs = 0.0;   ///< samples over the data's
  double seconds = 0.0;  ///< of training, in this process and those that it goes on from

  double of(LengthUnit unit) const;  ///< in that unit
};

/// What lengths are taken to samples and steps by.
struct RunMeasure {
  int64_t epoch_samples = 1;  ///< of the training data
  int64_t step_samples = 1;   ///< the global batch
  BatchRamp ramp = {};        ///< steps with others before
  int64_t sample_tokens = 0;  ///< 0 for models that do not read tokens
};

/// A stretch of a run; none where `amount` is 0.
struct RunLength {
  double amount = 0.0;                  ///< above 0
  LengthUnit unit = LengthUnit::steps;  ///< of the amount

  explicit operator bool() const { return amount > 0.0; }  ///< there is one
  /// Whether a multiple of the length lies after `before` and not after `now`.
  bool passed(const RunClock& before, const RunClock& now) const;
  /// The same in whole steps or samples, or in seconds: what passed() is exact for.
  RunLength counted_by(const RunMeasure& measure) const;
  /// The first step that reaches it, counted from 1; a whole number, perhaps above what an integer holds. Not of seconds.
  double steps(const RunMeasure& measure) const;

  bool operator==(const RunLength&) const = default;  ///< all of it
};

/// What a text says: a number above 0 and a unit. None for another text.
std::optional<RunLength> parse_run_length(const std::string& text);
/// As recipes say it: "500", "2 epochs".
std::string run_length_text(const RunLength& length);

}  // namespace weft
