#include "weft/comm/reduce/reduce.h"

#include <fmt/format.h>

#include <vector>

#include "weft/base/error.h"
#include "weft/comm/call/call.h"
#include "weft/comm/reduce/kernels.h"
#include "weft/comm/threads/parallel_for.h"

namespace weft {

namespace {

constexpr int64_t kGrain = 1 << 15;  // minimum elements per thread

}  // namespace

void reduce_tree(TreeReduction kind, void* const* outputs, int num_outputs, const void* const* sources, int num_sources,
                 int64_t numel) {
  const TreeKernel kernel = tree_kernel(kind);
  if (kernel == nullptr) throw InputError(fmt::format("{} cannot be reduced", dtype_name(kind.dtype)));
  if (threads_for(numel, kGrain) == 1) return kernel(outputs, num_outputs, sources, num_sources, numel);
  const auto item = static_cast<int64_t>(c10::elementSize(kind.dtype));
  parallel_for(numel, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<void*> to(outputs, outputs + num_outputs);
    std::vector<const void*> from(sources, sources + num_sources);
    for (void*& data : to) data = static_cast<char*>(data) + begin * item;
    for (const void*& data : from) data = static_cast<const char*>(data) + begin * item;
    kernel(to.data(), num_outputs, from.data(), num_sources, end - begin);
  });
}

}  // namespace weft
