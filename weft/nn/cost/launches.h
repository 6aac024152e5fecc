// launches: which calls of operators a GPU runs as kernels. The rules are the checked device's
// (weft/checked_device/operators.h), so that what is planned on the meta device can be compared with what a device is given.
// Sources that call this must define NDEBUG (flops.h).
#pragma once

#include <string>

namespace at {
struct RecordFunction;
}

namespace weft {

/// Name of the kernel, such as "aten::mm.out"; empty for views, allocations, and operators that are made of others.
const std::string& launch_of(const at::RecordFunction& call);

}  // namespace weft
