#include "weft/train/run/flat_memory.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/engine/memory_ledger.h"
#include "weft/train/plan/weight_dtype.h"

namespace weft {
namespace {

Allocate registered_with(const Group& group, MemoryCategory category, MemoryLedger* ledger) {
  return [group, category, ledger](int64_t numel, at::ScalarType dtype, const std::string& what) {
    const MemoryScope scope(category);
    const at::Tensor buffer = group.allocate(numel, dtype, what);
    // Also of a group in two levels, whose buffers are those of its ranks on this host.
    if (ledger && group.backend().starts_with("shm")) ledger->add(category, static_cast<int64_t>(buffer.nbytes()));
    return buffer;
  };
}

Allocate plain(at::Device device, MemoryCategory category) {
  return [device, category](int64_t numel, at::ScalarType dtype, const std::string&) {
    const MemoryScope scope(category);
    return at::zeros({numel}, at::TensorOptions(dtype).device(device));
  };
}

void set_allocators(FlatOptions& flat, ShardLevel level, const RankGroups& groups, const TrainerOptions& options) {
  const at::Device device = options.communication.device;
  const auto from = [&](const Group& group, MemoryCategory category) {
    return registered_with(group, category, options.ledger);
  };
  const bool gathers_own = level == ShardLevel::optimizer || level == ShardLevel::gradients;
  const bool pooled = level == ShardLevel::parameters;
  flat.allocate_gradients = from(level == ShardLevel::none ? groups.data : groups.shards, MemoryCategory::gradients);
  flat.allocate_weights = gathers_own ? from(groups.shards, MemoryCategory::weights)
                                      : plain(device, pooled ? MemoryCategory::gathered : MemoryCategory::weights);
  flat.allocate_shard = from(groups.shards, MemoryCategory::weights);
  flat.allocate_inner = from(groups.inner, MemoryCategory::gathered);
  flat.allocate_master = plain(device, MemoryCategory::master);
  flat.allocate_owned = plain(device, MemoryCategory::gradients);
}

}  // namespace

FlatOptions flat_memory(const Program& program, int rank, const Mesh& mesh, const RankGroups& groups,
                        const TrainerOptions& options) {
  const ShardLevel level = program.shard_level;
  FlatOptions flat = {.device = options.communication.device,
                      .num_shards = program.shards,
                      .shard = groups.shards.rank(),
                      .num_inner_shards = program.inner_shards,
                      .inner = groups.inner.rank(),
                      .weight_dtype = dtype_of(options.layout.precision),
                      .gradient_dtype = program.gradient_bytes == 4 ? at::kFloat : dtype_of(options.layout.precision),
                      .separate_shard = level == ShardLevel::parameters,
                      .late_shard = options.layout.offload_parameters != Offload::none,
                      .separate_gradients = level >= ShardLevel::gradients,
                      .weight_buffer = program.buffers_of(rank).weight,
                      .gradient_buffer = program.buffers_of(rank).gradient};
  for (int b = 0; b < program.num_blocks() && mesh.size("pp") > 1; ++b) {
    const std::vector<int>& holders = program.holders[b];
    const int pp = mesh.coordinate("pp");
    flat.held.push_back(std::find(holders.begin(), holders.end(), pp) != holders.end());
    flat.tied_copy.push_back(flat.held.back() && holders.front() != pp);
  }
  set_allocators(flat, level, groups, options);
  // From the world's rank 0 along its pipeline, and from there to each stage's other ranks.
  flat.share_given = [data = groups.data, pipeline = groups.pipeline](const at::Tensor& values, bool held,
                                                                      const std::string& what) {
    if (data.rank() == 0) pipeline.broadcast(values, 0, what).wait();
    if (held) data.broadcast(values, 0, what).wait();
  };
  return flat;
}

}  // namespace weft
