// TargetDevice: the kind of device that a plan is for, which need not be there; and what its memory allocator takes for a
// request.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// Kind of device that computes a step.
enum class TargetDevice : uint8_t {
  cpu,  ///< weft's own kernels
  gpu,  ///< any device that is no CPU: LibTorch's operators, with memory from a caching allocator
};
/// Names, as in run.device and in hardware files.
inline constexpr EnumNames<TargetDevice, 2> kTargetDevices("cpu", "cuda");

// The caching allocator of LibTorch 2.11 in its default settings (c10/core/AllocatorConfig.h; get_allocation_size() and
// should_split() in c10/cuda/CUDACachingAllocator.cpp): a request is rounded up to 512 bytes and takes a part of a segment,
// which the allocator keeps when the part is freed. Segments have 2 MiB for requests up to 1 MiB, 20 MiB for those below 10
// MiB, and otherwise the request's size, rounded up to 2 MiB; there a rest of up to 1 MiB stays with the request.

/// Bytes that the allocator counts as allocated for a request of `bytes`: `bytes` on a CPU.
int64_t allocated_bytes(TargetDevice device, int64_t bytes);

/// Bytes of the segments that hold all these requests at once, without gaps: the least that the allocator reserves. On a CPU
/// their sum.
int64_t reserved_bytes(TargetDevice device, const std::vector<int64_t>& requests);

}  // namespace weft
