// Block: the unit that is sharded, scheduled, recomputed, offloaded and placed on a stage; a Model is a chain of them.
//
// Activations between blocks are a short list of tensors. The engine calls forward on detached inputs and runs each block's
// backward itself, so a block needs no hooks and no knowledge of parallelism. Parameters are values that the engine rebinds to
// views into flat buffers (nn/flat/flat_model.h); a block must read them again in every forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/group.h"
#include "weft/nn/block_layout.h"
#include "weft/nn/parameter_split.h"

namespace weft {

/// Activations passed from one block to the next: a short list, in an order that both blocks agree on.
using Tensors = std::vector<at::Tensor>;

/// Where a step stands in the run, in memory of its device: kernels that read it there are right in each replay of a captured
/// step.
struct StepPlace {
  at::Tensor values = {};    ///< [2] int64: step; global index of the step's first sample. Undefined: only the host knows them
  int64_t first_sample = 0;  ///< that sample's index in the step that the host has issued
};

/// Where a forward stands in the run. Random numbers are keyed by this, never by the rank.
struct Context {
  uint64_t seed = 0;         ///< seed of the run
  int64_t step = 0;          ///< step of the run, from 0
  int64_t first_sample = 0;  ///< global index of the micro-batch's first sample
  bool training = true;      ///< false in evaluation
  Group tp = {};             ///< ranks that share the block's layers; each has a part of a split one (nn/parameter_split.h)
  Group cp = {};             ///< ranks that share each sample's sequence
  Group batch = {};          ///< ranks whose samples BatchNorm normalises together with this rank's
  BlockLayout layout = {};   ///< how the ranks of these groups share the work
  StepPlace place = {};      ///< step and samples as a device knows them, while it trains
  /// Targets of the micro-batch, for the last block alone and only with BlockLayout::loss_chunk. Undefined: logits are wanted.
  at::Tensor target = {};
};

/// Initialisation of a parameter, drawn element by element from (seed, full name, element index).
struct Init {
  /// Distribution of the initial values.
  enum class Kind { given, constant, normal, uniform };
  Kind kind = Kind::given;  ///< given: the tensor's current values (rank 0's are used on all ranks)
  double a = 0.0;           ///< constant: value; normal: mean; uniform: lower bound
  double b = 0.0;           ///< normal: standard deviation; uniform: upper bound
};

class DeferredGradients;

/// A trained tensor of a block and the view of the flat gradient buffer that receives its gradient. Until the model is bound to
/// flat buffers, `value` may be on the meta device and `gradient` is undefined.
struct Parameter {
  at::Tensor value;     ///< read by forward; float32 until bound
  at::Tensor gradient;  ///< receives the gradient of `value`; same shape
  DeferredGradients* deferred =
      nullptr;                      ///< takes the deferred weight gradient; null: it is not deferred (nn/deferred_gradients.h)
  std::optional<Split> split = {};  ///< how it is divided; `value` is the whole tensor until bound, then this rank's part
  /// Its gradient is that of this rank's tokens, and summed over tp once a step. Set by a forward (whole_value()), and kept.
  mutable bool partial = false;
};

/// A parameter or statistic, as described by its block.
struct ParamSpec {
  std::string name;                ///< within the block, PyTorch style: "attn.qkv.weight"
  Parameter* parameter = nullptr;  ///< points into the block
  Init init;                       ///< how its initial values are drawn
  bool decay = true;               ///< takes weight decay (matrices do, biases and norms do not)
  bool statistic = false;          ///< not trained: a buffer such as BatchNorm's running mean, combined over micro-batches
  bool wide = false;               ///< a statistic that stays float32 when weights are narrower
  bool frozen = false;             ///< never changes: no gradient, no optimizer state, no reduction
  bool embedding = false;          ///< rows looked up by id; not a matrix that activations are multiplied by
};

/// An untrained tensor that forward reads in addition to the parameters: a mask, a table, a permutation. Every rank that holds
/// the block has the whole tensor, in its own type at any precision. Rank 0's values are used, and checkpoints save them.
struct BufferSpec {
  std::string name;     ///< within the block, PyTorch style: "attn.mask"
  at::Tensor value;     ///< the block's own tensor: training may replace its values or memory, never the tensor itself
  bool counts = false;  ///< the block changes it, identically on all ranks; otherwise it is constant
  bool saved = true;    ///< in checkpoints and weights; false: the block makes the same values anew
};

/// A part of a model that runs as a unit.
class Block {
 public:
  virtual ~Block() = default;
  /// Returns the block's outputs, with their graph. `inputs` are the outputs of the previous block, or Batch::inputs for the
  /// first; they must not be changed.
  virtual Tensors forward(const Tensors& inputs, const Context& context) = 0;
  /// Returns all parameters and statistics that the block owns: the same entries in the same order on every call.
  virtual std::vector<ParamSpec> parameters() = 0;
  /// Returns whether the block honours BlockLayout::recompute_parts.
  virtual bool can_recompute_parts() const { return false; }
  /// Returns whether the block's layers honour Parameter::deferred, so that its backward is worth splitting.
  virtual bool can_split_backward() const { return false; }
  /// Returns whether the block, as a model's last, honours BlockLayout::loss_chunk.
  virtual bool can_chunk_loss() const { return false; }
  /// Returns whether the block's statistics cover all ranks of Context::batch, and its sums over samples, including gradient
  /// sums, follow BlockLayout::batch_pieces.
  virtual bool can_join_batches() const { return false; }
  /// Returns whether each of the block's trained parameters gets a gradient in every backward, so that ranks need not exchange
  /// which ones did (nn/flat/flat_model.h).
  virtual bool always_uses_all() const { return false; }
  /// Returns all buffers except statistics, which are parameters: the same entries in the same order on every call.
  virtual std::vector<BufferSpec> buffers() { return {}; }
};

/// Returns whether the block's backward is split where a schedule splits it. One that chunks its loss is whole: a deferred
/// weight gradient would keep the gradients of all logits.
inline bool splits_backward(const Block& block, const BlockLayout& layout) {
  return block.can_split_backward() && !(layout.loss_chunk > 0 && block.can_chunk_loss());
}

/// Optional base of blocks that identify other blocks of equal cost.
class HasKind {
 public:
  virtual ~HasKind() = default;
  /// Blocks of one C++ type that return the same text run the same operations, forward and backward, on inputs and parameters
  /// of the same shapes, strides and types; their names and values may differ.
  virtual std::string kind() const = 0;
};

}  // namespace weft
