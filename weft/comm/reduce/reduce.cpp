#include "weft/comm/reduce/reduce.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/comm/call/call.h"
#include "weft/comm/reduce/kernels.h"

namespace weft {

void reduce_tree(TreeReduction kind, void* const* outputs, int num_outputs, const void* const* sources, int num_sources,
                 int64_t numel) {
  const TreeKernel kernel = tree_kernel(kind);
  if (kernel == nullptr) throw InputError(fmt::format("{} cannot be reduced", dtype_name(kind.dtype)));
  kernel(outputs, num_outputs, sources, num_sources, numel);
}

}  // namespace weft
