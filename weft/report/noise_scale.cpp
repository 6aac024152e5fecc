#include "weft/report/noise_scale.h"

#include <algorithm>
#include <cmath>

namespace weft {

void NoiseScale::add(double small_squares, int64_t small, double big_squares, int64_t big) {
  const auto few = static_cast<double>(small), all = static_cast<double>(big);
  const double gradient = (all * big_squares - few * small_squares) / (all - few);
  const double trace = (small_squares - big_squares) / (1.0 / few - 1.0 / all);
  const auto take = [](double& sum, double value) { sum = NoiseSums::kDecay * sum + value; };
  ++sums_.steps;
  take(sums_.weight, 1.0);
  sums_.squared_weights = NoiseSums::kDecay * NoiseSums::kDecay * sums_.squared_weights + 1.0;
  take(sums_.gradient, gradient);
  take(sums_.trace, trace);
  take(sums_.gradient_squares, gradient * gradient);
  take(sums_.trace_squares, trace * trace);
  take(sums_.products, gradient * trace);
}

std::optional<NoiseEstimate> NoiseScale::estimate() const {
  if (sums_.steps == 0) return std::nullopt;
  const double weight = sums_.weight;
  NoiseEstimate result{.steps = sums_.steps, .gradient = sums_.gradient / weight, .trace = sums_.trace / weight};
  if (result.gradient <= 0.0 || result.trace <= 0.0) return result;
  result.batch = result.trace / result.gradient;
  if (sums_.steps == 1) return result;
  // To first order, the ratio's error is its value times the difference of the two relative errors.
  const double mean_square = sums_.gradient_squares / weight / (result.gradient * result.gradient) +
                             sums_.trace_squares / weight / (result.trace * result.trace) -
                             2.0 * sums_.products / weight / (result.gradient * result.trace);
  const double steps = weight * weight / sums_.squared_weights;  // effective sample size
  result.spread = *result.batch * std::sqrt(std::max(mean_square, 0.0) / (steps - 1.0));
  return result;
}

}  // namespace weft
