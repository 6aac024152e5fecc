#include "weft/train/trainer/trainer_buffers.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "weft/engine/memory_ledger.h"
#include "weft/plan/layout/weight_dtype.h"
#include "weft/program/axes.h"
#include "weft/program/copies.h"
#include "weft/program/ties.h"

namespace weft {
namespace {

/// Memory that peers read in collectives is registered with their group; the rest is plain memory of the run's device.
class TrainerAllocator : public FlatAllocator {
 public:
  TrainerAllocator(const Program& program, const AxisGroups& groups, const TrainerOptions& options)
      : level_(program.shard_level),
        replica_axes_(replica_axes(program)),
        groups_(groups),
        ledger_(options.ledger),
        plain_(options.communication.device) {}

  at::Tensor allocate(FlatBuffer buffer, int64_t numel, at::ScalarType dtype, const std::string& what) override {
    const MemoryCategory category = category_of(buffer);
    const MemoryScope scope(category);
    const Group* group = group_of(buffer);
    if (group == nullptr) return plain_.allocate(buffer, numel, dtype, what);
    const at::Tensor memory = group->allocate(numel, dtype, what);
    // Includes two-level groups, whose buffers are shared by their ranks on this host.
    if (ledger_ && memory.is_cpu() && group->backend().starts_with("shm"))
      ledger_->add(category, static_cast<int64_t>(memory.nbytes()));
    return memory;
  }

 private:
  MemoryCategory category_of(FlatBuffer buffer) const {
    switch (buffer) {
      case FlatBuffer::weights:
        return level_ == ShardLevel::parameters ? MemoryCategory::gathered : MemoryCategory::weights;
      case FlatBuffer::shard:
        return MemoryCategory::weights;
      case FlatBuffer::inner:
        return MemoryCategory::gathered;
      case FlatBuffer::master:
        return MemoryCategory::master;
      case FlatBuffer::gradients:
      case FlatBuffer::owned_gradients:
        break;
    }
    return MemoryCategory::gradients;
  }

  /// Null for plain memory.
  const Group* group_of(FlatBuffer buffer) const {
    switch (buffer) {
      case FlatBuffer::weights:
        return level_ == ShardLevel::optimizer || level_ == ShardLevel::gradients ? &groups_.along(kShardAxis) : nullptr;
      case FlatBuffer::gradients:
        return &groups_.gradients_along(level_ == ShardLevel::none ? replica_axes_ : kShardAxis);
      case FlatBuffer::shard:
        return &groups_.along(kShardAxis);
      case FlatBuffer::inner:
        return &groups_.along(kInnerAxis);
      case FlatBuffer::master:
      case FlatBuffer::owned_gradients:
        break;
    }
    return nullptr;
  }

  ShardLevel level_;
  AxisSet replica_axes_;
  AxisGroups groups_;
  MemoryLedger* ledger_;
  PlainAllocator plain_;
};

}  // namespace

FlatOptions flat_memory(const Program& program, int rank, const Mesh& mesh, const AxisGroups& groups,
                        const TrainerOptions& options) {
  const ShardLevel level = program.shard_level;
  FlatOptions flat = {.device = options.communication.device,
                      .num_shards = program.shards,
                      .shard = groups.along(kShardAxis).rank(),
                      .num_inner_shards = program.inner_shards,
                      .inner = groups.along(kInnerAxis).rank(),
                      .weight_dtype = dtype_of(options.layout.precision),
                      .gradient_dtype = program.gradient_bytes == 4 ? at::kFloat : dtype_of(options.layout.precision),
                      .separate_shard = level == ShardLevel::parameters,
                      .late_shard = options.layout.offload_parameters != Offload::none,
                      .separate_gradients = level >= ShardLevel::gradients,
                      .gradient_sums = program.gradient_sums,
                      .is_copy = !owns_blocks(program, program.pp_of(rank)),
                      .counts_unsplit = mesh.coordinate("tp") == 0,
                      .weight_buffer = program.buffers_of(rank).weight,
                      .gradient_buffer = program.buffers_of(rank).gradient,
                      .allocator = std::make_shared<TrainerAllocator>(program, groups, options),
                      .shares_given = true};
  if (program.uses_apart) flat.users = users_run(program, program.of(rank));
  for (int b = 0; b < program.num_blocks() && mesh.size("pp") > 1; ++b) {
    const std::vector<int>& holders = program.holders[b];
    const int pp = mesh.coordinate("pp");
    flat.held.push_back(std::find(holders.begin(), holders.end(), pp) != holders.end());
    flat.tied_copy.push_back(flat.held.back() && holders.front() != pp);
  }
  return flat;
}

void share_given(FlatModel& model, const AxisGroups& groups) {
  model.share_given([&groups](const at::Tensor& values, bool held, const std::string& what) {
    const Group &data = groups.along(kDataAxes), &cp = groups.along(kContextAxis), &tp = groups.along(kTensorAxis);
    if (data.rank() == 0 && cp.rank() == 0 && tp.rank() == 0) groups.along(kPipelineAxis).broadcast(values, 0, what).wait();
    if (held && cp.rank() == 0 && tp.rank() == 0) data.broadcast(values, 0, what).wait();
    if (held && tp.rank() == 0) cp.broadcast(values, 0, what).wait();
    if (held) tp.broadcast(values, 0, what).wait();
  });
}

}  // namespace weft
