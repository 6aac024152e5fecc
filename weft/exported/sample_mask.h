// Stochastic depth in an exported graph: the operators that draw, scale and apply its mask of samples. They have no training
// argument: a module in evaluation would not have called them.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/exported/graph.h"

namespace weft {

/// A mask of ones and zeros, [factor x samples, 1, ...].
struct SampleMask {
  int64_t factor = 1;      ///< rows per sample
  double evaluated = 1.0;  ///< the elements with which the multiplication changes nothing: 1 after the scaling
};

/// Returns what the node draws if it is bernoulli_(survival) on a new tensor of one element per sample, which is then divided
/// by that probability, or not, and read by one multiplication, as torchvision's StochasticDepth ("row") and timm's DropPath
/// do.
std::optional<SampleMask> sample_mask_of(const ExportedGraph& graph, const ExportedNode& node);

}  // namespace weft
