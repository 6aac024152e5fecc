// RunInterval: how far apart things are in a run, as recipes say it: "500 steps", "10 min", "1 epoch", "1e6 tokens".
#pragma once

#include <string>

namespace weft {

/// What an interval is counted in.
enum class IntervalUnit { steps, samples, tokens, epochs, seconds };

/// Where a run is, in each of these.
struct RunClock {
  double steps = 0.0;    ///< done
  double samples = 0.0;  ///< trained on
  double tokens = 0.0;   ///< trained on; 0 for models that do not read tokens
  double epochs = 0.0;   ///< samples over the data's
  double seconds = 0.0;  ///< of training, in this process and those that it goes on from

  double of(IntervalUnit unit) const;  ///< in that unit
};

/// A stretch of a run; none where `amount` is 0.
struct RunInterval {
  double amount = 0.0;                      ///< above 0
  IntervalUnit unit = IntervalUnit::steps;  ///< of the amount

  explicit operator bool() const { return amount > 0.0; }  ///< there is one
  /// Whether a multiple of the interval lies after `before` and not after `now`.
  bool passed(const RunClock& before, const RunClock& now) const;
};

/// What a text says; none for an empty one. Throws InputError, in words that follow a key's name, for another text.
RunInterval parse_run_interval(const std::string& text);

}  // namespace weft
