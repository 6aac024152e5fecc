// memory: bytes a rank holds, by category, read off its program. Nothing is allocated for it.
//
// Each category's figure is its own peak; their sum is a bound, since not all peak at the same moment. Model states follow
// Rajbhandari et al. 2020 (arXiv:1910.02054): for P parameters, fp32 and Adam 4 + 4 + 8 bytes each; mixed precision 2 + 2 + 12;
// the part that a level shards divided by the ranks of the shard axis.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/program/program.h"

namespace weft {

/// What memory is for.
enum class MemoryCategory : uint8_t {
  weights,        ///< as forward reads them: whole, or the rank's shard where whole ones are gathered
  master,         ///< float32 weights of the optimizer, beside narrower ones
  gradients,      ///< whole ones, this rank's shard of them, partial sums of slots
  optimizer,      ///< optimizer state, and what an update needs for the moment
  gathered,       ///< buffers of whole weights
  activations,    ///< micro-batches, activations, their gradients
  communication,  ///< what collectives are staged in
  saving,         ///< copies of the rank's share of the state: to be saved, and snapshots in the launcher's memory
};
/// The words for categories, for people.
inline constexpr EnumNames<MemoryCategory, 8> kMemoryCategories("weights", "master weights", "gradients", "optimizer state",
                                                                "gathered weights", "activations", "communication buffers",
                                                                "copies of the state");

/// The words for a category: "master weights".
inline std::string_view name(MemoryCategory category) { return kMemoryCategories.of(category); }

/// Bytes of each category, in the order of MemoryCategory.
using CategoryBytes = std::array<int64_t, kMemoryCategories.size()>;

/// What an optimizer keeps of a block, where that is not the same tensors of all that it owns.
struct BlockState {
  int states = 0;               ///< float32 tensors of all that a rank owns
  int64_t part = 0;             ///< elements of one more, of which one rank may own all
  int64_t whole = 0;            ///< elements that each of its ranks has
  int64_t temporary_bytes = 0;  ///< most that its update holds for the moment, beside gathered gradients
};

/// What a rank's memory depends on beside the program.
struct MemoryOptions {
  int optimizer_states = 2;  ///< float32 tensors of state: 2 for Adam, 1 for SGD with momentum, 1 for an average
  std::vector<BlockState> block_states = {};  ///< by block, in place of optimizer_states; empty: those hold
  bool offload_optimizer = false;             ///< one block's state at a time
  bool offload_weights = false;               ///< one block's shard at a time
  int64_t communication_bytes = 0;            ///< of the groups
  int state_copies = 0;                       ///< of its share of the state, to be saved and as snapshots
};

/// Bytes that a rank holds.
struct MemoryEstimate {
  CategoryBytes peak{};         ///< most at a time, in each category
  int64_t model_states = 0;     ///< of it, what ZeRO calls so: weights, gradients and optimizer state, without buffers
  int64_t largest_block = 0;    ///< whole weights of the block that has most of them, of those the rank holds
  int largest_block_index = 0;  ///< which block that is
  int64_t total() const;        ///< all peaks together
  int64_t of(MemoryCategory category) const { return peak[static_cast<size_t>(category)]; }  ///< the category's peak
};

/// What a rank of the program holds. Throws VerifyError for a rank that is not there, or of which something is out of range.
MemoryEstimate estimate_memory(const Program& program, int rank, const MemoryOptions& options);
/// The same, of a program that check_program() has let through.
MemoryEstimate estimate_checked_memory(const Program& program, int rank, const MemoryOptions& options);

}  // namespace weft
