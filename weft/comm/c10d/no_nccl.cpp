// Linked if weft is built without CUDA.
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/comm/c10d/c10d_backends.h"
#include "weft/comm/call/backend.h"

namespace weft {

std::shared_ptr<Backend> make_nccl_backend(const GroupPlan& plan) {
  throw InputError(fmt::format("group \"{}\" on GPUs needs NCCL; configure weft with -DWEFT_CUDA=ON", plan.axis.name));
}

}  // namespace weft
