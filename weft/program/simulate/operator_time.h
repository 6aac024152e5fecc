// operator_time: time of single operators on a device, from their shapes.
//
// A product takes the fastest of its tilings: waves of tiles over the processors, each as long as its part of the sum, or its
// bytes through memory if that is longer; as measured libraries choose. Attention takes its operations at an efficiency that
// grows with the length, plus a part of a wave. Everything else takes its bytes.
#pragma once

#include "weft/base/operator_work.h"
#include "weft/program/simulate/computing_times.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// Time of one launch of an operator on hardware with OperatorCosts.
double operator_seconds(const OperatorWork& work, const Hardware& hardware);

/// Times of all launches of a pass.
ComputingTimes operator_times(const PassOperators& operators, const Hardware& hardware);

/// Time of `launches` operators that move `bytes` through memory.
double memory_bound_seconds(double bytes, int launches, const Hardware& hardware);
/// The same for an optimizer's.
double update_seconds(double bytes, int launches, const Hardware& hardware);

}  // namespace weft
