// RangeRate: the learning rate of a range's update: a number of the host's, or one in memory of the device, which a captured
// step reads anew in each replay. Updates by either have the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/device_kernels/update_kernels.h"
#include "weft/optim/optimizer.h"

namespace weft {

/// The rate of one range's update.
class RangeRate {
 public:
  /// That of the step times a factor of the parameter's rule, and another. Where rates are float32, so are factors and
  /// products.
  RangeRate(const UpdateStep& step, double factor, double other_factor = 1.0);

  /// weights -= rate values
  void subtract(const at::Tensor& weights, const at::Tensor& values) const;
  /// weights -= rate values / divisors
  void subtract_quotients(const at::Tensor& weights, const at::Tensor& values, const at::Tensor& divisors) const;
  /// weights *= 1 - rate decay
  void decay(const at::Tensor& weights, double decay) const;
  /// 1 - rate decay on the weights' device, and rate times a factor: [] float64.
  at::Tensor kept(double decay, const at::Tensor& weights) const;
  at::Tensor times(double factor, const at::Tensor& weights) const;  ///< see kept()
  /// Calls `update` with the rate, or with the tensor that holds it.
  template <class Update>
  void visit(const Update& update) const {
    placed_.defined() ? update(placed_) : update(known_);
  }
  double known() const { return known_; }               ///< unless a captured step is replayed
  const at::Tensor& placed() const { return placed_; }  ///< [] float32 on the device, or undefined

 private:
  double known_;
  at::Tensor placed_;
};

/// The update that is `later` after the step's, for kernels.
RateThere rate_there(const UpdateStep& step, const RangeRate& rate, int64_t number);

}  // namespace weft
