// check_same_batch: that ranks which share a sample's layers or tokens were given the same samples.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/comm/group.h"
#include "weft/data/dataset.h"
#include "weft/program/axis_set.h"

namespace weft {

/// Compares a hash of the batch over the group along these axes; in a group of one nothing is done. Throws InputError on every
/// rank where another has other samples, and CommError. `device` is the group's.
void check_same_batch(const Batch& batch, const Group& group, AxisSet axes, at::Device device);

}  // namespace weft
