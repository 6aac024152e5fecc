// Trainings on the checked device, over its NCCL rules: rank r has device r.
#pragma once

#include <string>

#include "tests/train/jobs.h"

namespace weft {

/// The same strategy on the checked device, installed once per process.
Strategy on_device(Strategy strategy);

/// What the device has to say since the last call, a line each.
std::string said_of_device();

}  // namespace weft
