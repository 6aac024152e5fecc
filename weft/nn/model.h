// Model: a named chain of blocks and a loss.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/nn/block.h"
#include "weft/nn/model_option.h"
#include "weft/nn/split_table.h"

namespace weft {

/// A loss as a sum and a count (law 4); it is divided elsewhere.
struct LossValue {
  at::Tensor sum;     ///< scalar, with graph
  int64_t count = 0;  ///< number of targets in the sum
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
  bool takes_parts_ = false;
};

/// Loss of a micro-batch, computed from the last block's outputs and the target.
using Loss = OutputFunction<LossValue>;
/// Number of counted targets that were predicted correctly.
using Hits = OutputFunction<int64_t>;

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
  /// True if ranks may share a sequence: inputs and targets are [batch, tokens], activations [batch, tokens, ...], and
  /// attention honours Context::cp.
  bool splits_sequences = false;
  /// Options that do not show in the shapes of the weights. Checkpoints save them, and a checkpoint or imported weights with
  /// different options are refused. Empty: nothing is compared.
  std::vector<ModelOption> options = {};

  int num_blocks() const { return static_cast<int>(blocks.size()); }  ///< number of blocks in the chain
};

}  // namespace weft
