// WeightAverage: an exponential moving average of the weights, beside them: w_avg = decay w_avg + (1 - decay) w after each
// update. What timm keeps as ModelEmaV3 and PyTorch as AveragedModel with get_ema_multi_avg_fn().
//
// It begins as the weights are. Running statistics are averaged as weights are (timm's and torchvision's way): those of the
// averaged weights are about the average of theirs. Frozen weights are their own average.
//
// Memory: 4 bytes a parameter and statistic in float32, divided over ranks as the optimizer's state is. Nothing on the wire.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace weft {

/// Whether weights are averaged, and over how long.
struct WeightAverage {
  double decay = 0.0;  ///< what the average keeps of itself in an update; in [0, 1); 0: none is kept
  bool warmup = true;  ///< less at first: see decay_after()

  bool is_kept() const { return decay > 0.0; }  ///< there is one
  /// The decay of an update of the average that `updates` have come before: min(decay, (1 + updates) / (10 + updates)), as
  /// TensorFlow's ExponentialMovingAverage has it, or `decay` without warm-up.
  double decay_after(int64_t updates) const;
  /// In words: "0.999 with warm-up"; "none".
  std::string text() const;
};

/// Throws InputError for a decay out of its range.
void check_average(const WeightAverage& average);

/// Takes `weights` into `average`, in place; both [n] float32.
void add_to_average(const at::Tensor& average, const at::Tensor& weights, double decay);

/// Exchanges the values of two such tensors, bit for bit. Memory: 256 KiB for the moment.
void exchange_values(const at::Tensor& a, const at::Tensor& b);

}  // namespace weft
