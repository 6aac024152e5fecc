#include "weft/plan/host_memory.h"

#include <algorithm>

#include "weft/plan/cost/cost_table.h"

namespace weft {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kProcess = kGiB / 2;
constexpr int64_t kGpuProcess = 4 * kGiB;

int64_t reading_bytes(const DataRecipe& data) {
  const double window = data.name == "parquet" || data.name == "jsonl" ? data.shuffle_mb * (1 << 20) : 0.0;
  return static_cast<int64_t>(window * static_cast<double>(std::max<int64_t>(data.mix.size(), 1)));
}

/// Bytes of a rank whose tensors are on a GPU.
int64_t host_tensors(const LayoutRecipe& layout, const MemoryEstimate& estimate) {
  int64_t bytes = estimate.host_bytes;
  if (layout.offload_optimizer == "host" || layout.offload_parameters == "host") bytes += estimate.model_states;
  if (layout.offload_activations == "host") bytes += estimate.of(MemoryCategory::activations);
  return bytes;
}

}  // namespace

int64_t host_bytes_of_rank(const Recipe& recipe, const RecipeMemory& memory) {
  const bool on_gpu = memory.plan.costs->device() == TargetDevice::gpu;
  const MemoryEstimate& estimate = memory.estimate();
  const int64_t tensors = on_gpu ? host_tensors(recipe.layout, estimate) : estimate.total();
  return tensors + reading_bytes(recipe.data) + (on_gpu ? kGpuProcess : kProcess);
}

}  // namespace weft
