// NoiseScale: the gradient noise scale of a training (McCandlish et al. 2018, arXiv:1812.06162, appendix A.1), from two squared
// norms per step: that of small-batch gradients and that of the whole batch's gradient.
//
// The mean gradient of B samples has the expected squared norm |G|^2 + tr(Sigma) / B, with G the true gradient and Sigma the
// per-sample covariance. Two batch sizes give unbiased estimates of both in each step; each is averaged exponentially over the
// steps before the ratio B_simple = tr(Sigma) / |G|^2 is taken. Beyond that batch size, a larger batch costs more samples than
// it saves steps.
#pragma once

#include <cstdint>
#include <optional>

namespace weft {

/// Running sums over the steps so far, each with kDecay times the weight of the next. They are part of a run's state.
struct NoiseSums {
  static constexpr double kDecay = 0.99;  ///< the last hundred steps weigh most

  int64_t steps = 0;              ///< number of steps summed
  double weight = 0.0;            ///< sum of weights
  double squared_weights = 0.0;   ///< sum of squared weights
  double gradient = 0.0;          ///< weighted sum of |G|^2 estimates
  double trace = 0.0;             ///< weighted sum of tr(Sigma) estimates
  double gradient_squares = 0.0;  ///< weighted sum of squared |G|^2 estimates
  double trace_squares = 0.0;     ///< weighted sum of squared tr(Sigma) estimates
  double products = 0.0;          ///< weighted sum of products of both
};

/// The current estimate.
struct NoiseEstimate {
  int64_t steps = 0;                  ///< number of steps summed
  double gradient = 0.0;              ///< |G|^2, the squared norm of the true gradient; may be below 0
  double trace = 0.0;                 ///< tr(Sigma), the variance of one sample's gradient, over all elements
  std::optional<double> batch = {};   ///< their ratio, in samples; empty unless both are above 0
  std::optional<double> spread = {};  ///< standard error of the ratio, from the variation between steps; empty for one step
};

/// Accumulates the steps' squared norms and estimates the noise scale.
class NoiseScale {
 public:
  /// Resumes from saved sums.
  explicit NoiseScale(const NoiseSums& sums = {}) : sums_(sums) {}

  /// Adds a step: the mean squared norm of the mean gradients of batches of `small` samples, and that of the whole batch of
  /// `big` > small samples (StepResult::small_squares, and the square of StepResult::norm).
  void add(double small_squares, int64_t small, double big_squares, int64_t big);
  /// Empty before the first step.
  std::optional<NoiseEstimate> estimate() const;
  /// The complete state.
  const NoiseSums& sums() const { return sums_; }

 private:
  NoiseSums sums_;
};

}  // namespace weft
