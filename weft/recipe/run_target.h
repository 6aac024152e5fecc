// RunTarget: what an evaluation must reach for a run to end, as recipes say it: "accuracy >= 0.9", "loss <= 2.1".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/base/enum_names.h"

namespace weft {

/// What a target is about.
enum class TargetMetric : uint8_t { accuracy, loss };
/// The words for it.
inline constexpr EnumNames<TargetMetric, 2> kTargetMetrics("accuracy", "loss");

/// A target: at least so much accuracy, or at most so much loss.
struct RunTarget {
  TargetMetric metric = TargetMetric::accuracy;  ///< of an evaluation
  double value = 0.0;                            ///< accuracy: a share, above 0 and at most 1

  /// Whether an evaluation with that loss and accuracy is there; never where the one it is about is unknown or no number.
  bool is_reached(double loss, std::optional<double> accuracy) const;
};

/// What a text says; none for an empty one. Throws InputError, in words that follow a key's name, for another text.
std::optional<RunTarget> parse_run_target(const std::string& text);

}  // namespace weft
