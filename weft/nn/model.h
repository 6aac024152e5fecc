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

/// From the last block's outputs and the target.
using Loss = std::function<LossValue(const Tensors& outputs, const at::Tensor& target)>;
/// How many of the counted targets were predicted correctly.
using Hits = std::function<int64_t(const Tensors& outputs, const at::Tensor& target)>;

struct NamedBlock {
  std::string name;    ///< what people read: "h.3", "head"
  std::string prefix;  ///< of its parameters' names: "h.3", or empty
  std::shared_ptr<Block> block;
  std::vector<int> uses = {};  ///< other blocks whose parameters it reads too (tied weights)
};

struct Model {
  std::string name;
  std::vector<NamedBlock> blocks = {};
  Loss loss = {};
  Hits hits = {};  ///< empty: no accuracy is reported

  int num_blocks() const { return static_cast<int>(blocks.size()); }
};

/// Cross entropy of logits [..., classes] against target [...] of class ids, summed over the targets that are not -100.
LossValue cross_entropy(const Tensors& outputs, const at::Tensor& target);
int64_t count_hits(const Tensors& outputs, const at::Tensor& target);

}  // namespace weft
