// Program: the step of every rank, as lists of instructions. The same program is verified, simulated, drawn and run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/program/block_cost.h"
#include "weft/program/instruction.h"

namespace weft {

/// Bytes of a float32, the type of master weights and optimizer state.
inline constexpr int64_t kFloatBytes = 4;

/// Instructions of a rank's step, in order.
using InstructionList = std::vector<Instruction>;

/// State divided over the shard axis: ZeRO's stages 1 to 3 (Rajbhandari et al. 2020).
enum class ShardLevel : uint8_t { none, optimizer, gradients, parameters };

/// Names of levels, as in recipes.
inline constexpr EnumNames<ShardLevel, 4> kShardLevels("none", "optimizer", "gradients", "parameters");
/// Name of a level.
inline std::string_view name(ShardLevel level) { return kShardLevels.of(level); }

/// State to offload (passes/offload.h).
struct OffloadOptions {
  bool activations = false;  ///< inputs of recomputed blocks
  bool optimizer = false;    ///< optimizer state
  bool weights = false;      ///< the rank's shard; level parameters only
  /// Kinds of state.
  struct Beside {
    bool activations = false;  ///< inputs of recomputed blocks
    bool optimizer = false;    ///< optimizer state
    bool weights = false;      ///< the rank's shard
  };
  /// Kinds whose copies run beside compute, as between a device and host memory: reloads start ahead (passes/reload_ahead.h).
  Beside beside = {};
  bool is_beside(Payload what) const;  ///< copies of such a payload run beside compute
};

/// Buffer numbers of blocks (buffers.h): blocks with the same number use the same memory, one at a time. Empty: each has its
/// own.
struct Buffers {
  std::vector<int> weight;    ///< by block: buffer of its whole weights; -1: the rank does not hold the block
  std::vector<int> gradient;  ///< by block: buffer of its whole gradients; -1: the rank does not hold the block
};

/// Sizes of the axes. Ranks are numbered with pp outermost:
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

/// The step of every rank. The frame describes model, mesh and layout; the lists hold the ranks' actions.
struct Program {
  std::vector<std::string> block_names = {};      ///< BlockCost::name
  std::vector<int64_t> block_numel = {};          ///< elements of each block's flat buffer, padded to divide over the shards
  std::vector<int64_t> block_frozen = {};         ///< elements of frozen weights, padded the same way; empty: all 0
  std::vector<int> gathered_gradient_bytes = {};  ///< by block: BlockCost::gathered_gradient_bytes; empty: all 0
  std::vector<std::vector<int>> block_uses = {};  ///< BlockCost::uses
  std::vector<InnerCalls> block_calls = {};       ///< BlockCost::calls; empty: no calls
  std::vector<InnerCall> loss_calls = {};         ///< ModelCost::loss_calls
  std::vector<SharedOperators> operators = {};    ///< BlockCost::operators; empty: all null
  PassOperators loss_operators = {};              ///< ModelCost::loss_operators
  ShardLevel shard_level = ShardLevel::none;      ///< state divided over the shards
  int shards = 1;                                 ///< ranks that share one replica's state; 1 for level none
  int inner_shards = 1;                           ///< ranks over which weights stay sharded after forward; 1: off
  int weight_bytes = 4;                           ///< bytes per element of the weights that forward reads
  int gradient_bytes = 4;                         ///< bytes per element of the gradients that are reduced
  int micro_batches = 1;                          ///< number per pipeline and step
  int slots = 1;                                  ///< number per rank and step; divides micro_batches
  AxisSet batch_axes = kNoAxes;  ///< axes over which samples are normalised together (BatchNorm); part of kDataAxes
  int replicas = 1;              ///< ranks with the same part of the state, over which gradients are summed
  bool needs_norm = false;       ///< updates wait for norms: clipping, fp16's check, per-tensor rates
  int64_t flagged = 0;           ///< parameters that may lack a gradient: one exchanged flag each
  bool noise_scale = false;      ///< measures squares of small batches' gradients (passes/noise_squares.h)
  int votes = 0;                 ///< number of the caller's values summed over all ranks with the losses
  /// Each rank of tp has gradients of its own tokens for parameters that are not split (sequence parallelism). They are summed
  /// over tp once, after the sums over data-parallel ranks.
  bool partial_gradients = false;
  bool head_takes_targets =
      false;                ///< ModelCost::head_takes_targets: forward of the last block needs the micro-batch's targets
  bool keep_order = false;  ///< gradients are reduced once, after the last micro-batch, even if sharded
  /// Each use of a tied weight has its own sum, over slots and ranks; these are added up last, so the bits do not depend on
  /// where the uses are.
  bool uses_apart = false;
  OffloadOptions offload = {};  ///< state kept in slower memory
  int64_t upload_bytes = 0;     ///< a micro-batch as it is copied to a device, beside compute; 0: it is not
  MeshSizes mesh = {};          ///< sizes of the mesh axes
  int copies = 1;               ///< pipeline ranks that run each block, each on its micro-batches (copies.h)

  /// Pipeline ranks that hold each block: one, or several for tied weights. Empty: one pipeline rank holds all.
  std::vector<std::vector<int>> holders = {};
  /// By block: number of separate gradient sums, one per use, on the rank with most uses (uses_apart). Empty: one per block.
  std::vector<int> gradient_sums = {};
  std::vector<InstructionList> lists = {};  ///< distinct lists
  std::vector<Buffers> buffers = {};        ///< buffers of each list
  std::vector<int> list_of_rank = {};       ///< world rank -> index into lists

  int world_size() const { return static_cast<int>(list_of_rank.size()); }           ///< all ranks
  const InstructionList& of(int rank) const { return lists[list_of_rank[rank]]; }    ///< the list of a world rank
  const Buffers& buffers_of(int rank) const { return buffers[list_of_rank[rank]]; }  ///< buffers of a world rank's list
  int pp_of(int rank) const { return rank / (world_size() / mesh.pp); }              ///< pipeline-axis place of a world rank
  /// Pipeline ranks that hold the block.
  int num_holders(int block) const { return holders.empty() ? 1 : static_cast<int>(holders[block].size()); }
  bool is_shared(int block) const { return num_holders(block) > copies; }  ///< true if several ranks own it: tied weights
  /// Calls of an instruction's block, or the loss, to other ranks while it runs.
  const std::vector<InnerCall>& inner_calls(const Instruction& instruction) const;
  int num_blocks() const { return static_cast<int>(block_names.size()); }  ///< blocks of the whole model
  /// True if the block makes the losses: its forward reads the targets, as a loss does.
  bool takes_targets(int block) const { return head_takes_targets && block + 1 == num_blocks(); }
  /// Elements of a block's whole weights.
  int64_t weight_numel(int block) const { return block_numel[block] + (block_frozen.empty() ? 0 : block_frozen[block]); }
  /// True if the block's update gathers its gradients from all shards.
  bool gathers_gradients(int block) const { return !gathered_gradient_bytes.empty() && gathered_gradient_bytes[block] > 0; }
  int num_sums(int block) const { return gradient_sums.empty() ? 1 : gradient_sums[block]; }  ///< separate gradient sums
  /// Bytes of a block's whole gradients, including all sums.
  int64_t gradient_block_bytes(int block) const { return block_numel[block] * gradient_bytes * num_sums(block); }
};

}  // namespace weft
