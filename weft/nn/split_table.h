// SplitTable: how the layers of a model may be divided over ranks, as rules on their names. It stands beside a model, whose
// blocks know no more of it than what their layers do with a Parameter::split.
//
// A layer by columns (Shoeybi et al. 2019, arXiv:1909.08053) takes whole rows and gives each rank a part of its output; one by
// rows takes such parts and gives their sum: a pair of them needs one all-reduce forward and one backward. Weights are then
// divided by the number of ranks; so are the activations between the two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// How a layer's weight is divided.
enum class SplitKind : uint8_t {
  columns,     ///< along dim 0 of weight and bias: a linear layer's outputs, a convolution's output channels
  rows,        ///< along dim 1 of the weight: its inputs; the bias stays whole
  vocabulary,  ///< along dim 0 of the weight: an embedding's entries, or the classes of logits; padded where it does not divide
};

/// How the layers of some names are divided.
struct SplitRule {
  std::string layer = {};               ///< "h.*.attn.c_attn": its weight is this + ".weight"; `*` is any part between dots
  SplitKind kind = SplitKind::columns;  ///< along which dim
  std::vector<int64_t> segments = {};   ///< of that dim, each divided by itself (fused projections); empty: all one
  int64_t unit = 1;                     ///< positions that stay together: a head's width
  std::string unit_name = {};           ///< what they are, for errors: "heads"; empty: "outputs", or "inputs" of rows
  bool joined = false;                  ///< columns: outputs are put side by side again on every rank (the textbook's form)
};

/// Rules for all layers that are divided; the others every rank has whole.
using SplitTable = std::vector<SplitRule>;

}  // namespace weft
