// SplitTable: rules by name for dividing a model's layers over ranks. It is separate from the model, whose blocks only know how
// their layers handle a Parameter::split.
//
// A layer split by columns (Shoeybi et al. 2019, arXiv:1909.08053) takes whole rows and returns a part of its output on each
// rank; a layer split by rows takes such parts and returns their sum. Such a pair needs one all-reduce forward and one
// backward, and divides its weights, and the activations between the two layers, by the number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// How a layer's weight is divided.
enum class SplitKind : uint8_t {
  columns,     ///< along dim 0 of weight and bias: a linear layer's outputs, a convolution's output channels
  rows,        ///< along dim 1 of the weight: its inputs; the bias stays whole
  vocabulary,  ///< along dim 0 of the weight: an embedding's entries, or the classes of logits; padded if uneven
};

/// Rule for the layers that match a name.
struct SplitRule {
  std::string layer = {};               ///< "h.*.attn.c_attn": the weight is this + ".weight"; `*` is any part between dots
  SplitKind kind = SplitKind::columns;  ///< dim that is divided
  std::vector<int64_t> segments = {};   ///< segments of that dim, each divided separately (fused projections); empty: one
  int64_t unit = 1;                     ///< positions that stay on one rank together: a head's width
  std::string unit_name = {};           ///< name of the units, for errors: "heads"; empty: "outputs", or "inputs" for rows
  bool joined = false;                  ///< for columns: outputs are gathered on every rank
  bool is_transposed = false;           ///< the weight is [inputs, outputs]: dims 0 and 1 above are 1 and 0
};

/// Rules for all divided layers; every rank has all other layers whole.
using SplitTable = std::vector<SplitRule>;

}  // namespace weft
