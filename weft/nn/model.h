// Model: a named chain of blocks and a loss.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/nn/block.h"

namespace weft {

/// A loss is a sum and a count (law 4): nothing is divided here.
struct LossValue {
  at::Tensor sum;     ///< scalar, with graph
  int64_t count = 0;  ///< targets that counted
};

/// The loss of a micro-batch, from the last block's outputs and the target.
using Loss = std::function<LossValue(const Tensors& outputs, const at::Tensor& target)>;
/// How many of the counted targets were predicted correctly.
using Hits = std::function<int64_t(const Tensors& outputs, const at::Tensor& target)>;

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
  Hits hits = {};                       ///< empty: no accuracy is reported

  int num_blocks() const { return static_cast<int>(blocks.size()); }  ///< of the chain
};

/// Cross entropy of logits [..., classes] against target [...] of class ids, summed over the targets that are not -100.
LossValue cross_entropy(const Tensors& outputs, const at::Tensor& target);
/// How many of the targets that cross_entropy() counts have the largest logit.
int64_t count_hits(const Tensors& outputs, const at::Tensor& target);

}  // namespace weft
