// step_memory: memory that a rank holds in a training step, measured by category, to compare with its forecast
// (plan/forecast.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "weft/comm/call/group_options.h"
#include "weft/comm/world.h"
#include "weft/data/dataset.h"
#include "weft/plan/layout/resolve.h"
#include "weft/program/memory.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Memory of a rank during a step, on its device.
struct StepMemory {
  std::optional<CategoryBytes> peak;  ///< of each category; nullopt if the device's allocator does not report them
  int64_t peak_total = 0;             ///< of all together; 0 if the device's allocator has no statistics
};

/// Trains two steps of a recipe in its resolved layout and returns this rank's peaks in the second, the first in which all
/// state is there. `batch` is this rank's share of the global batch, `communication.device` the rank's device. Collective over
/// the world.
StepMemory step_memory(const Recipe& recipe, const ResolvedLayout& layout, const World& world, const Batch& batch,
                       const GroupOptions& communication);

/// Bytes of activations beyond the forecast, at most: on a processor with AVX-512, oneDNN first reorders bf16 operands, in
/// memory from LibTorch's allocator, which the device-independent forecast does not include. The largest are those of the
/// second linear layer: hidden values four times as wide as a block's output, and its weights. Without instructions for bf16
/// it also keeps the sums of a block's output in float32.
int64_t packed_for_products(const Recipe& recipe, const ResolvedLayout& layout);
/// The same of the optimizer's state: Muon multiplies in bf16; the sums of its largest matrix in float32.
int64_t packed_for_updates(const Recipe& recipe);

/// The same on other devices: flags of id checks, which a step keeps until its loss is read. Each takes 512 bytes.
int64_t flags_of_checks(const ResolvedLayout& layout);

}  // namespace weft
