// launched_work: what a launched operator has to do (base/operator_work.h), from its tensors on the meta device.
// Sources that call this must define NDEBUG (flops.h).
#pragma once

#include "weft/base/operator_work.h"

namespace at {
struct RecordFunction;
}

namespace weft {

/// Work of a call that is a launch (launches.h), before it runs: complete for products and attention. A convolution lacks the
/// size of its output; other operators have the bytes of the arguments that they read or write.
PassOperators work_before(const at::RecordFunction& call);

/// Completes it once the call has run.
void complete_work(PassOperators& work, const at::RecordFunction& call);

}  // namespace weft
