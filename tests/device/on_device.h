// Trainings on the checked device, over its NCCL rules: rank r has device r. With WEFT_TEST_DEVICE=cuda on GPUs instead, which
// ranks share (tools/gpu_check); with "cpu" on LibTorch's operators on the CPU.
#pragma once

#include <string>

#include "tests/train/jobs.h"

namespace weft {

/// Whether it is the checked device, which has the CPU's bits; others round otherwise.
bool is_checked_device();

/// Whether a step of so many ranks can be captured on the device: not where they share GPUs, as their sums go through the host.
bool has_graphs(int ranks);

/// The same strategy on the device, which is installed once per process.
Strategy on_device(Strategy strategy);

/// What the device has to say since the last call, a line each.
std::string said_of_device();

}  // namespace weft
