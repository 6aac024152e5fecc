// Code of users that says the type of the device without an index, forward and backward: it means the rank's own.
#pragma once

#include "tests/train/jobs.h"

namespace weft {

/// The job mlp, whose blocks multiply by ones that they make in this way.
const Job& job_without_index();

}  // namespace weft
