// memory: bytes a rank holds, by category, read off its program. Allocates nothing.
//
// Each category's figure is its own peak. They peak together, except what backward takes (activations, sums of gradients in
// flight) and what updates of weights take after it (temporary memory, reloaded optimizer state). Model states follow
// Rajbhandari et al. 2020 (arXiv:1910.02054): for P parameters, fp32 and Adam 4 + 4 + 8 bytes each; mixed precision 2 + 2 + 12;
// sharded parts are divided by the ranks of the shard axis.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/base/target_device.h"
#include "weft/program/program.h"

namespace weft {

/// Purpose of memory.
enum class MemoryCategory : uint8_t {
  weights,        ///< weights that forward reads: whole, or the rank's shard if whole ones are gathered
  master,         ///< the optimizer's float32 weights, in addition to narrower ones
  gradients,      ///< whole gradients, this rank's shard, partial sums of slots
  optimizer,      ///< optimizer state, and temporary memory of updates
  gathered,       ///< buffers of whole weights
  activations,    ///< micro-batches, activations, their gradients
  communication,  ///< staging buffers of collectives
  saving,         ///< copies of the rank's state: for saves, and snapshots in the launcher's memory
};
/// Names of categories, for reports.
inline constexpr EnumNames<MemoryCategory, 8> kMemoryCategories("weights", "master weights", "gradients", "optimizer state",
                                                                "gathered weights", "activations", "communication buffers",
                                                                "copies of the state");

/// Name of a category: "master weights".
inline std::string_view name(MemoryCategory category) { return kMemoryCategories.of(category); }

/// Name of its peak in a run's records: "memory/master_weights".
std::string record_name(MemoryCategory category);

/// Bytes of each category, in the order of MemoryCategory.
using CategoryBytes = std::array<int64_t, kMemoryCategories.size()>;

/// Optimizer state of a block, whose elements need not all have the same state tensors.
struct BlockState {
  int states = 0;               ///< float32 tensors that cover all elements a rank owns
  int64_t part = 0;             ///< elements of a further tensor, all of which one rank may own
  int64_t whole = 0;            ///< elements that each of the block's ranks holds in full
  int64_t temporary_bytes = 0;  ///< peak temporary memory of its update, besides gathered gradients
  int64_t norm_bytes = 0;       ///< peak temporary memory of the norms of its gradients, before the updates
};

/// Inputs of a rank's memory besides the program.
struct MemoryOptions {
  int optimizer_states = 2;  ///< float32 tensors of state: 2 for Adam, 1 for SGD with momentum, 1 for an average
  std::vector<BlockState> block_states = {};  ///< by block, replaces optimizer_states unless empty
  bool offload_optimizer = false;             ///< only one block's state is in memory at a time
  bool offload_weights = false;               ///< only one block's shard is in memory at a time
  OffloadOptions::Beside in_own_memory = {};  ///< kinds offloaded to host memory that is the device's own: beside a CPU
  int64_t communication_bytes = 0;            ///< buffers of the process groups
  int state_copies = 0;                       ///< copies of the rank's state, for saving and snapshots
  bool copies_sums = false;                   ///< sums over ranks first gather what they add up: in tree order on GPUs
  TargetDevice device =
      TargetDevice::cpu;  ///< whose allocator's rounding counts; beside a GPU copies of the state are in host memory
};

/// Memory of a rank.
struct MemoryEstimate {
  CategoryBytes peak{};         ///< peak of each category
  int64_t host_bytes = 0;       ///< part of the peaks that is in host memory, with the rest on a GPU: copies of the state
  int64_t reserved_bytes = 0;   ///< least that the allocator takes from the device for all of it (base/target_device.h)
  int64_t model_states = 0;     ///< ZeRO's model states: weights, gradients and optimizer state, without buffers
  int64_t largest_block = 0;    ///< whole weights of the rank's largest block
  int largest_block_index = 0;  ///< index of that block
  int64_t update_bytes = 0;     ///< part of the optimizer's peak that is there only during updates
  int64_t early_bytes = 0;      ///< part of the gradients' peak that is gone by then
  int64_t backward_bytes = 0;   ///< part of that which is there while activations are at their peak
  int64_t lasting_bytes = 0;  ///< part of the activations' peak that is not: uploads, offloaded ones in the device's own memory
  int64_t sum() const;        ///< of the peaks on the device
  int64_t total() const;      ///< most that is on the device at once
  /// Replaces the activations' peak by another schedule's.
  void set_activations(int64_t bytes) { peak[static_cast<size_t>(MemoryCategory::activations)] = bytes + lasting_bytes; }
  int64_t of(MemoryCategory category) const { return peak[static_cast<size_t>(category)]; }  ///< the category's peak
};

/// Estimates the memory of a rank. Throws VerifyError as check_rank() does.
MemoryEstimate estimate_memory(const Program& program, int rank, const MemoryOptions& options);
/// Same, for a program that check_program() has accepted.
MemoryEstimate estimate_checked_memory(const Program& program, int rank, const MemoryOptions& options);

}  // namespace weft
