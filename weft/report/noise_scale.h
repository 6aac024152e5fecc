// NoiseScale: the gradient noise scale of a training (McCandlish et al. 2018, arXiv:1812.06162, appendix A.1), from two squared
// norms a step: of gradients of small batches and of the whole one.
//
// The mean gradient of B samples has the expected squared norm |G|^2 + tr(Sigma) / B, with G the true gradient and Sigma the
// covariance of one sample's. Two sizes of batch give both, unbiased, a step at a time; each is averaged exponentially over the
// steps before the ratio, B_simple = tr(Sigma) / |G|^2, is taken. That is the batch from which on a larger one saves fewer
// steps than it costs samples.
#pragma once

#include <cstdint>
#include <optional>

namespace weft {

/// What NoiseScale keeps of the steps so far, each weighing kDecay of the next: part of a run's state.
struct NoiseSums {
  static constexpr double kDecay = 0.99;  ///< so that the last hundred steps weigh most

  int64_t steps = 0;              ///< that were taken
  double weight = 0.0;            ///< of all of them
  double squared_weights = 0.0;   ///< the sum of their squares
  double gradient = 0.0;          ///< of estimates of |G|^2
  double trace = 0.0;             ///< of estimates of tr(Sigma)
  double gradient_squares = 0.0;  ///< of the first ones' squares
  double trace_squares = 0.0;     ///< of the others' squares
  double products = 0.0;          ///< of the products of both
};

/// What is known of the noise scale.
struct NoiseEstimate {
  int64_t steps = 0;                  ///< that were taken
  double gradient = 0.0;              ///< |G|^2, the squared norm of the true gradient; may come out below 0
  double trace = 0.0;                 ///< tr(Sigma), the variance of one sample's gradient, over all elements
  std::optional<double> batch = {};   ///< their ratio, in samples; none where either is not above 0
  std::optional<double> spread = {};  ///< standard error of the ratio, from how the steps' estimates differ; none of one step
};

/// Takes steps and tells the noise scale.
class NoiseScale {
 public:
  /// Goes on from what an earlier one kept.
  explicit NoiseScale(const NoiseSums& sums = {}) : sums_(sums) {}

  /// Takes a step: the mean squared norm of the mean gradients of batches of `small` samples, and that of the gradient of the
  /// whole batch of `big` > small samples (StepResult::small_squares, and the square of StepResult::norm).
  void add(double small_squares, int64_t small, double big_squares, int64_t big);
  /// None before the first step.
  std::optional<NoiseEstimate> estimate() const;
  /// All that it keeps.
  const NoiseSums& sums() const { return sums_; }

 private:
  NoiseSums sums_;
};

}  // namespace weft
