// RunTarget: the evaluation result that ends a run, as written in recipes: "accuracy >= 0.9", "loss <= 2.1".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/base/enum_names.h"

namespace weft {

/// The metric of a target.
enum class TargetMetric : uint8_t { accuracy, loss };
/// Names of the metrics.
inline constexpr EnumNames<TargetMetric, 2> kTargetMetrics("accuracy", "loss");

/// A target: a least accuracy or a largest loss.
struct RunTarget {
  TargetMetric metric = TargetMetric::accuracy;  ///< compared metric of an evaluation
  double value = 0.0;                            ///< accuracy: a share, above 0 and at most 1

  /// Returns true if an evaluation with that loss and accuracy reaches the target; false if its metric is missing or NaN.
  bool is_reached(double loss, std::optional<double> accuracy) const;
};

/// Parses a target; empty for an empty text. Throws InputError for any other text, worded to follow a key's name.
std::optional<RunTarget> parse_run_target(const std::string& text);

}  // namespace weft
