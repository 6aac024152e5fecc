// Block: the unit that is sharded, scheduled, recomputed, offloaded and placed on a stage; a Model is a chain of them.
//
// Activations between blocks are a short list of tensors. The engine calls forward on detached inputs and runs each block's
// backward itself, so a block needs no hooks and knows no parallelism. Parameters are values that the engine rebinds to views
// into flat buffers (nn/flat/flat_model.h); a block must read them afresh at every forward.
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

/// What goes from one block to the next: a short list, in an order that both know.
using Tensors = std::vector<at::Tensor>;

/// Where in the run a forward stands: what random numbers are keyed by (never by rank).
struct Context {
  uint64_t seed = 0;         ///< of the run
  int64_t step = 0;          ///< of the run, from 0
  int64_t first_sample = 0;  ///< global index of the micro-batch's first sample
  bool training = true;      ///< false in an evaluation
  Group tp = {};             ///< ranks that share the block's layers: each has its part of what is split (nn/parameter_split.h)
  Group cp = {};             ///< ranks that share each sample's sequence
  Group batch = {};          ///< ranks whose samples BatchNorm normalises together with this one's
  BlockLayout layout = {};   ///< how the ranks of these groups share its work
};

/// How a parameter's first values are drawn, element by element, from (seed, full name, element index).
struct Init {
  /// The rule.
  enum class Kind { given, constant, normal, uniform };
  Kind kind = Kind::given;  ///< given: the values the tensor has already (rank 0's are taken everywhere)
  double a = 0.0;           ///< constant: value; normal: mean; uniform: low
  double b = 0.0;           ///< normal: standard deviation; uniform: high
};

class DeferredGradients;

/// A trained tensor of a block, and the view of the flat gradient buffer that its gradient goes to. Until the model is bound to
/// flat buffers, `value` may be on the meta device and `gradient` is undefined.
struct Parameter {
  at::Tensor value;     ///< what forward reads; float32 until it is bound
  at::Tensor gradient;  ///< where its gradient goes, of the same shape
  DeferredGradients* deferred =
      nullptr;                      ///< where a layer that can put off its weight gradient has to (nn/deferred_gradients.h)
  std::optional<Split> split = {};  ///< of the whole, which `value` has until it is bound, and this rank's part from then on
};

/// A parameter or a statistic, as its block tells of it.
struct ParamSpec {
  std::string name;                ///< within the block, PyTorch style: "attn.qkv.weight"
  Parameter* parameter = nullptr;  ///< in the block
  Init init;                       ///< how its first values are drawn
  bool decay = true;               ///< takes weight decay (matrices do, biases and norms do not)
  bool statistic = false;          ///< not trained: a buffer such as BatchNorm's running mean, combined over micro-batches
  bool wide = false;               ///< a statistic that stays float32 beside narrower weights
  bool frozen = false;             ///< never changes: no gradient, no optimizer state, no reduction
  bool embedding = false;          ///< rows that are looked up by id: no matrix that activations are multiplied by
};

/// A tensor that forward reads beside the parameters and that no step trains: a mask, a table, a permutation. Every rank that
/// holds the block has all of it, in its own type whatever the precision; rank 0's values count, and checkpoints have them.
struct BufferSpec {
  std::string name;     ///< within the block, PyTorch style: "attn.mask"
  at::Tensor value;     ///< the block's own: its values or memory may be replaced, never the tensor itself
  bool counts = false;  ///< the block itself changes it, to the same on all ranks; otherwise it is constant
};

/// A part of a model that is run as a whole.
class Block {
 public:
  virtual ~Block() = default;
  /// The block's outputs, with their graph. `inputs` are the outputs of the block before, those of the first block
  /// Batch::inputs; they must not be changed.
  virtual Tensors forward(const Tensors& inputs, const Context& context) = 0;
  /// All parameters and statistics that the block owns: the same entries in the same order at every call.
  virtual std::vector<ParamSpec> parameters() = 0;
  /// True when it heeds BlockLayout::recompute_parts.
  virtual bool can_recompute_parts() const { return false; }
  /// True when its layers heed Parameter::deferred, so that its backward is worth splitting.
  virtual bool can_split_backward() const { return false; }
  /// True when its statistics are those of all ranks of Context::batch, and it makes its sums over samples, those of gradients
  /// too, over BlockLayout::batch_pieces.
  virtual bool can_join_batches() const { return false; }
  /// True when each of its trained parameters has a gradient in every backward, so that ranks need not tell one another which
  /// had one (nn/flat/flat_model.h).
  virtual bool always_uses_all() const { return false; }
  /// All of its buffers but statistics, which are parameters: the same entries in the same order at every call.
  virtual std::vector<BufferSpec> buffers() { return {}; }
};

/// A second base of blocks that can tell which others cost the same.
class HasKind {
 public:
  virtual ~HasKind() = default;
  /// Blocks of one C++ type that give the same text run the same operations, forward and backward, on inputs and parameters of
  /// the same shapes, strides and types; what they are called and the values they hold may differ.
  virtual std::string kind() const = 0;
};

}  // namespace weft
