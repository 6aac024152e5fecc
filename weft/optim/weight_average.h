// WeightAverage: an exponential moving average of the weights, kept with them: w_avg = decay w_avg + (1 - decay) w after each
// update. Equals timm's ModelEmaV3 and PyTorch's AveragedModel with get_ema_multi_avg_fn().
//
// It starts as a copy of the weights. Running statistics are averaged like weights (as in timm and torchvision): the statistics
// of the averaged weights are about the average of the statistics. Frozen weights are their own average.
//
// Memory: 4 bytes per parameter and statistic in float32, divided over ranks like the optimizer's state. No communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace weft {

/// Settings of weight averaging.
struct WeightAverage {
  double decay = 0.0;  ///< weight of the old average in an update; in [0, 1); 0: no average is kept
  bool warmup = true;  ///< uses a smaller decay at first: see decay_after()

  bool is_kept() const { return decay > 0.0; }  ///< true if an average is kept
  /// Decay for the average's next update after `updates` updates: min(decay, (1 + updates) / (10 + updates)), as in
  /// TensorFlow's ExponentialMovingAverage, or `decay` without warm-up.
  double decay_after(int64_t updates) const;
  /// Text for users: "0.999 with warm-up"; "none".
  std::string text() const;
};

/// Throws InputError for a decay out of range.
void check_average(const WeightAverage& average);

/// Averages `weights` into `average`, in place; both [n] float32.
void add_to_average(const at::Tensor& average, const at::Tensor& weights, double decay);

/// What a device decides of a step's averages.
struct GatedAverage {
  at::Tensor share;    ///< [] float32: weight of the new weights, 1 less the decay
  at::Tensor refused;  ///< [] bool: the averages stay as they are
};

/// Returns that of a step, whose gate is step_numbers.h's: the average has had as many updates as `number`, [] float32 on the
/// device, says, and `more`.
GatedAverage gated_average(const WeightAverage& average, const at::Tensor& gate, const at::Tensor& number, int64_t more);

/// The same as add_to_average(), with the same bits. Memory: that of kDeviceRangeElements (update_ranges.h) temporarily.
void add_to_average(const at::Tensor& average, const at::Tensor& weights, const GatedAverage& by);

/// Exchanges the values of two tensors [n] float32, bit for bit. Memory: 256 KiB temporarily.
void exchange_values(const at::Tensor& a, const at::Tensor& b);

}  // namespace weft
