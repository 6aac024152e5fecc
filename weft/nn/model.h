// Model: a named chain of blocks and a loss.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/model_option.h"
#include "weft/nn/split_table.h"

namespace weft {

/// A number of targets or of hits: the host's, or one that only the device knows yet.
class LossCount {
 public:
  LossCount(int64_t count = 0) : count_(count) {}                        ///< implicit, as most losses know the number
  LossCount(at::Tensor on_device) : on_device_(std::move(on_device)) {}  ///< implicit, from one int64 on the outputs' device
  LossCount(std::floating_point auto) = delete;
  operator int64_t() const { return on_device_.defined() ? on_device_.item<int64_t>() : count_; }  ///< may wait for the device
  const at::Tensor& on_device() const { return on_device_; }  ///< undefined if the host knows the number

 private:
  int64_t count_ = 0;
  at::Tensor on_device_;
};

/// A loss as a sum and a count (law 4), or a sum and a weight; it is divided elsewhere.
struct LossValue {
  at::Tensor sum;   ///< scalar, with graph
  LossCount count;  ///< number of targets in the sum
  at::Tensor weight =
      {};  ///< total weight of these targets, a scalar of at least 0, which divides the sum in place of the count
};

/// A result computed from the last block's outputs and the target: a function of (outputs, target), or of (outputs, target,
/// context) if outputs may be this rank's part over context.tp.
template <class Result>
class OutputFunction {
 public:
  OutputFunction() = default;
  /// Implicit, from a function of (outputs, target, context).
  template <class F>
  requires std::is_invocable_r_v<Result, F, const Tensors&, const at::Tensor&, const Context&> OutputFunction(F function)
      : function_(std::move(function)), takes_parts_(true) {}
  /// Implicit, from a function of (outputs, target).
  template <class F>
  requires std::is_invocable_r_v<Result, F, const Tensors&, const at::Tensor&> OutputFunction(F function)
      : function_(WithoutContext<F>{std::move(function)}) {}

  /// Calls the function, which must not be empty.
  Result operator()(const Tensors& outputs, const at::Tensor& target, const Context& context = {}) const {
    return function_(outputs, target, context);
  }
  explicit operator bool() const { return static_cast<bool>(function_); }  ///< it has a function
  bool takes_parts() const { return takes_parts_; }                        ///< the function takes the context
  /// The same function, which takes bfloat16 and float16 outputs as they are; others are given them as float32.
  OutputFunction of_any_type() && {
    takes_any_type_ = true;
    return std::move(*this);
  }
  bool takes_any_type() const { return takes_any_type_; }  ///< of_any_type()
  /// The same function, which also takes what a head returns with BlockLayout::loss_chunk (nn/loss/language_head.h).
  OutputFunction of_chunks() && {
    takes_chunks_ = true;
    return std::move(*this);
  }
  bool takes_chunks() const { return takes_chunks_; }  ///< of_chunks()
  /// Returns the wrapped function of (outputs, target) if its type is F; otherwise null.
  template <class F>
  const F* target() const {
    const auto* wrapped = function_.template target<WithoutContext<F>>();
    return wrapped ? &wrapped->function : nullptr;
  }

 private:
  template <class F>
  struct WithoutContext {
    Result operator()(const Tensors& outputs, const at::Tensor& target, const Context&) { return function(outputs, target); }
    F function;
  };

  std::function<Result(const Tensors&, const at::Tensor&, const Context&)> function_;
  bool takes_parts_ = false, takes_any_type_ = false, takes_chunks_ = false;
};

/// Loss of a micro-batch, computed from the last block's outputs and the target.
using Loss = OutputFunction<LossValue>;
/// Number of counted targets that were predicted correctly.
using Hits = OutputFunction<LossCount>;

/// A block at its position in a model.
struct NamedBlock {
  std::string name;              ///< shown to users: "h.3", "head"
  std::string prefix;            ///< prefix of its parameters' names: "h.3", or empty
  std::shared_ptr<Block> block;  ///< the block, in no other model, as training binds its parameters
  std::vector<int> uses = {};    ///< other blocks whose parameters it also reads (tied weights)
};

/// A chain of blocks and a loss.
struct Model {
  std::string name;                     ///< shown to users
  std::vector<NamedBlock> blocks = {};  ///< in execution order
  Loss loss = {};                       ///< the training objective
  Loss evaluation_loss = {};            ///< loss reported by evaluations; empty: the same
  Hits hits = {};                       ///< empty: no accuracy is reported
  Hits top5 = {};                       ///< number of targets among the five most likely classes; empty: not reported
  SplitTable splits = {};               ///< rules for layers that may be divided over ranks; empty: none may
  /// The split layer whose parts are the outputs; empty: they are whole. Not set: the last split layer.
  std::optional<std::string> output_layer = {};
  /// True if ranks may share a sequence: inputs and targets are [batch, tokens], activations [batch, tokens, ...], and
  /// attention honours Context::cp.
  bool splits_sequences = false;
  /// True if the shapes between blocks change from step to step. On a device, ranks of a pipeline then announce them in every
  /// step, for which the receiving host waits; otherwise in the first.
  bool shapes_vary = false;
  /// Options that do not show in the shapes of the weights. Checkpoints save them, and a checkpoint or imported weights with
  /// different options are refused. Empty: nothing is compared.
  std::vector<ModelOption> options = {};
  std::string file = {};        ///< that it was read from; empty: none
  std::string file_state = {};  ///< of that file then (base/input_file.h): weights from there are of the same state

  int num_blocks() const { return static_cast<int>(blocks.size()); }  ///< number of blocks in the chain
};

}  // namespace weft
