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

/// A loss is a sum and a count (law 4): nothing is divided here.
struct LossValue {
  at::Tensor sum;     ///< scalar, with graph
  int64_t count = 0;  ///< targets that counted
};

/// What is computed from the last block's outputs and the target: a function of (outputs, target), or of (outputs, target,
/// context) where outputs may be this rank's part of context.tp's.
template <class Result>
class OutputFunction {
 public:
  OutputFunction() = default;
  /// Implicit, of a function that takes the context too.
  template <class F>
  requires std::is_invocable_r_v<Result, F, const Tensors&, const at::Tensor&, const Context&> OutputFunction(F function)
      : function_(std::move(function)), takes_parts_(true) {}
  /// Implicit, of one that does not.
  template <class F>
  requires std::is_invocable_r_v<Result, F, const Tensors&, const at::Tensor&> OutputFunction(F function)
      : function_(WithoutContext<F>{std::move(function)}) {}

  /// Calls it; it is not empty.
  Result operator()(const Tensors& outputs, const at::Tensor& target, const Context& context = {}) const {
    return function_(outputs, target, context);
  }
  explicit operator bool() const { return static_cast<bool>(function_); }  ///< it is not empty
  bool takes_parts() const { return takes_parts_; }                        ///< it is a function of the context too
  /// The function without a context that it was made of, if that is an F; otherwise null.
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

/// The loss of a micro-batch, from the last block's outputs and the target.
using Loss = OutputFunction<LossValue>;
/// How many of the counted targets were predicted correctly.
using Hits = OutputFunction<int64_t>;

/// A block in its place in a model.
struct NamedBlock {
  std::string name;              ///< what people read: "h.3", "head"
  std::string prefix;            ///< of its parameters' names: "h.3", or empty
  std::shared_ptr<Block> block;  ///< what runs; in this place only, as training binds its parameters
  std::vector<int> uses = {};    ///< other blocks whose parameters it reads too (tied weights)
};

/// A chain of blocks and a loss.
struct Model {
  std::string name;                     ///< what people read
  std::vector<NamedBlock> blocks = {};  ///< in the order in which they run
  Loss loss = {};                       ///< what is trained for
  Loss evaluation_loss = {};            ///< what evaluations tell; empty: the same
  Hits hits = {};                       ///< empty: no accuracy is reported
  Hits top5 = {};                       ///< the target is among the five likeliest; empty: that is not reported
  SplitTable splits = {};               ///< which of its layers may be divided over ranks; empty: none
  /// Its inputs and targets are [batch, tokens], its activations [batch, tokens, ...] and its attention minds Context::cp: a
  /// sequence may be shared by ranks.
  bool splits_sequences = false;
  /// What it computes beyond what its weights show. A checkpoint keeps them; one with others is refused, as are weights of
  /// others that say so. Empty: nothing is compared.
  std::vector<ModelOption> options = {};

  int num_blocks() const { return static_cast<int>(blocks.size()); }  ///< of the chain
};

}  // namespace weft
