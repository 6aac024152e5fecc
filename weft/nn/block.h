// Block: the unit that is sharded, scheduled, recomputed, offloaded and placed on a stage; a Model is a chain of them.
//
// Activations between blocks are a short list of tensors. The engine calls forward on detached inputs and runs each block's
// backward itself, so a block needs no hooks and knows no parallelism. Parameters are values that the engine rebinds to views
// into flat buffers (nn/flat.h); a block must read them afresh at every forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

using Tensors = std::vector<at::Tensor>;

/// Where in the run a forward stands: what random numbers are keyed by (never by rank).
struct Context {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_sample = 0;  ///< global index of the micro-batch's first sample
  bool training = true;
  bool recompute_parts = false;  ///< blocks that can, keep less for backward and compute it again (nn/recompute.h)
};

/// How a parameter's first values are drawn, element by element, from (seed, full name, element index).
struct Init {
  enum class Kind { given, constant, normal, uniform };
  Kind kind = Kind::given;  ///< given: the values the tensor has already (rank 0's are taken everywhere)
  double a = 0.0;           ///< constant: value; normal: mean; uniform: low
  double b = 0.0;           ///< normal: standard deviation; uniform: high
};

class DeferredGradients;

/// A trained tensor of a block, and the view of the flat gradient buffer that its gradient goes to. Until the model is bound to
/// flat buffers, `value` may be on the meta device and `gradient` is undefined.
struct Parameter {
  at::Tensor value;
  at::Tensor gradient;
  DeferredGradients* deferred = nullptr;  ///< where a layer that can put off its weight gradient has to (nn/split_backward.h)
};

/// What a block tells about one of its parameters or statistics.
struct ParamSpec {
  std::string name;  ///< within the block, PyTorch style: "attn.qkv.weight"
  Parameter* parameter = nullptr;
  Init init;
  bool decay = true;       ///< takes weight decay (matrices do, biases and norms do not)
  bool statistic = false;  ///< not trained: a buffer such as BatchNorm's running mean, combined over micro-batches
  bool wide = false;       ///< a statistic that stays float32 beside narrower weights
  bool frozen = false;     ///< never changes: no gradient, no optimizer state, no reduction
};

class Block {
 public:
  virtual ~Block() = default;
  /// `inputs` of the first block are Batch::inputs. Must not change its inputs.
  virtual Tensors forward(const Tensors& inputs, const Context& context) = 0;
  /// The same entries in the same order at every call.
  virtual std::vector<ParamSpec> parameters() = 0;
  /// True when it heeds Context::recompute_parts.
  virtual bool can_recompute_parts() const { return false; }
  /// True when its layers heed Parameter::deferred, so that its backward is worth splitting.
  virtual bool can_split_backward() const { return false; }
};

}  // namespace weft
