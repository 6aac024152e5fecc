// Program: the step of every rank, as lists of instructions. What is verified, simulated and drawn is what runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/program/block_cost.h"
#include "weft/program/instruction.h"

namespace weft {

/// Bytes of a float32, which master weights and optimizer state are.
inline constexpr int64_t kFloatBytes = 4;

/// What a rank does in a step, in order.
using InstructionList = std::vector<Instruction>;

/// What is divided over the shard axis: ZeRO's stages 1 to 3 (Rajbhandari et al. 2020).
enum class ShardLevel : uint8_t { none, optimizer, gradients, parameters };

/// The words for levels, as recipes have them.
inline constexpr EnumNames<ShardLevel, 4> kShardLevels("none", "optimizer", "gradients", "parameters");
/// The word for a level.
inline std::string_view name(ShardLevel level) { return kShardLevels.of(level); }

/// What is offloaded (passes/offload.h).
struct OffloadOptions {
  bool activations = false;  ///< inputs of blocks that are computed again
  bool optimizer = false;    ///< optimizer state
  bool weights = false;      ///< the rank's shard of them; level parameters only
};

/// Which blocks lie in the same memory, one at a time (buffers.h): those with the same number. Empty: each has its own.
struct Buffers {
  std::vector<int> weight;    ///< of whole weights, by block; -1 for one that the rank does not hold
  std::vector<int> gradient;  ///< of whole gradients, by block; -1 for one that the rank does not hold
};

/// How many ranks an axis has. Ranks are numbered with pp outermost:
/// rank = (((pp * dp_size + dp) * shard_size + shard) * cp_size + cp) * tp_size + tp.
struct MeshSizes {
  int pp = 1;                                              ///< pipeline ranks
  int dp = 1;                                              ///< replicas
  int shard = 1;                                           ///< ranks that share one replica's state
  int cp = 1;                                              ///< ranks that share each sample's sequence
  int tp = 1;                                              ///< ranks that share each block's layers
  int data() const { return dp * shard; }                  ///< ranks that read different samples
  int world() const { return pp * dp * shard * cp * tp; }  ///< all ranks
};

/// The step of every rank. Its frame is what model and mesh it is for and how these are laid out; its lists are what its ranks
/// do.
struct Program {
  std::vector<std::string> block_names = {};  ///< BlockCost::name
  std::vector<int64_t> block_numel = {};   ///< elements of each block's flat buffer, padded so that it divides over the shards
  std::vector<int64_t> block_frozen = {};  ///< of frozen weights beside them, padded alike; empty: there are none
  std::vector<int> gathered_gradient_bytes = {};  ///< by block: BlockCost's; empty: no update gathers any
  std::vector<std::vector<int>> block_uses = {};  ///< BlockCost::uses
  std::vector<InnerCalls> block_calls = {};       ///< BlockCost::calls; empty: none
  std::vector<InnerCall> loss_calls = {};         ///< ModelCost::loss_calls
  ShardLevel shard_level = ShardLevel::none;      ///< what is divided over the shards
  int shards = 1;                                 ///< ranks that share one replica's state; 1 for level none
  int inner_shards = 1;          ///< ranks that whole weights are kept divided over from forward to backward; 1: not kept
  int weight_bytes = 4;          ///< of an element that forward reads
  int gradient_bytes = 4;        ///< of an element that is reduced
  int micro_batches = 1;         ///< per pipeline and step
  int slots = 1;                 ///< per rank and step; divides micro_batches
  AxisSet batch_axes = kNoAxes;  ///< along which samples are normalised together (BatchNorm); of kDataAxes
  int replicas = 1;              ///< ranks that hold the same part of the state, its gradients summed over them
  bool needs_norm = false;       ///< updates await norms: clipping, fp16's check, rates of tensors
  int64_t told = 0;              ///< parameters of which ranks tell one another, with the losses, whether they had a gradient
  bool noise_scale = false;      ///< the squares of small batches' gradients are taken (passes/noise_squares.h)
  int votes = 0;                 ///< numbers of the caller's that are added up over all ranks, with the losses
  bool keep_order = false;       ///< gradients are reduced once, after the last micro-batch, though sharded
  /// Each use of a tied weight has a sum of its own, over slots and ranks, and these are added up last: so wherever the uses
  /// are, the bits are the same.
  bool uses_apart = false;
  OffloadOptions offload = {};  ///< what is offloaded
  MeshSizes mesh = {};          ///< of the world
  int copies = 1;               ///< pipeline ranks that run each block, each on its part of the micro-batches (copies.h)

  /// The pipeline ranks that hold each block: one, or several for tied weights. Empty: one pipeline rank holds all.
  std::vector<std::vector<int>> holders = {};
  /// By block: sums of its gradients that a rank keeps side by side, one for each use, of the rank that runs most of its uses
  /// (uses_apart). Empty: one each.
  std::vector<int> gradient_sums = {};
  std::vector<InstructionList> lists = {};  ///< each once
  std::vector<Buffers> buffers = {};        ///< by list
  std::vector<int> list_of_rank = {};       ///< world rank -> index into lists

  int world_size() const { return static_cast<int>(list_of_rank.size()); }           ///< all ranks
  const InstructionList& of(int rank) const { return lists[list_of_rank[rank]]; }    ///< the list of a world rank
  const Buffers& buffers_of(int rank) const { return buffers[list_of_rank[rank]]; }  ///< those of a world rank's list
  int pp_of(int rank) const { return rank / (world_size() / mesh.pp); }  ///< where a world rank stands on the pipeline axis
  /// Pipeline ranks that hold the block.
  int num_holders(int block) const { return holders.empty() ? 1 : static_cast<int>(holders[block].size()); }
  bool is_shared(int block) const { return num_holders(block) > copies; }  ///< whether several ranks own it: tied weights
  /// What an instruction's block, or the loss, calls on other ranks while it runs.
  const std::vector<InnerCall>& inner_calls(const Instruction& instruction) const;
  int num_blocks() const { return static_cast<int>(block_names.size()); }  ///< of the whole model
  /// Elements of a block's whole weights.
  int64_t weight_numel(int block) const { return block_numel[block] + (block_frozen.empty() ? 0 : block_frozen[block]); }
  /// Whether the block's update needs what all shards have of its gradients.
  bool gathers_gradients(int block) const { return !gathered_gradient_bytes.empty() && gathered_gradient_bytes[block] > 0; }
  int num_sums(int block) const { return gradient_sums.empty() ? 1 : gradient_sums[block]; }  ///< of its gradients
  /// Bytes of a block's whole gradients, all sums of them.
  int64_t gradient_block_bytes(int block) const { return block_numel[block] * gradient_bytes * num_sums(block); }
};

}  // namespace weft
