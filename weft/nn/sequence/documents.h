// Documents: samples that hold several documents side by side, of which no token is to see another's.
//
// A batch tells of them by its second input, int64 [batch, tokens]: each token's place within its document, counted from 0. So
// a 0 begins a document, and within one places rise by one. Places go along the chain of blocks beside the activation, as 8
// bytes a token where they cross to another stage, and take no gradient. A batch without that input has one document a sample.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/block.h"

namespace weft {

/// Tokens [begin, begin + tokens) of a sample, which are one document; or of several samples that follow one another, each of
/// which is one.
struct DocumentRun {
  int64_t sample = 0;   ///< the first one
  int64_t samples = 1;  ///< more than one: each is one document
  int64_t begin = 0;    ///< the first token
  int64_t tokens = 0;   ///< of each sample
};

/// All tokens of a micro-batch, in order.
using DocumentRuns = std::vector<DocumentRun>;

/// What a block's inputs tell of their documents.
class Documents {
 public:
  /// Of the inputs of a block, {x, places} or {x}. Values are read on the host, for which a device is waited for; on the meta
  /// device, which has none, each sample counts as one document. `what` names it in errors. Throws InputError for places of
  /// another type or number of dimensions, that do not begin at 0 or jump, and for samples that ranks share (Context::cp).
  Documents(const Tensors& inputs, const Context& context, const std::string& what);

  /// Throws InputError unless places, where there are any, are of the shape of the token ids.
  void check_beside(const at::Tensor& ids) const;

  /// Whether positions must be taken from places(): a sample may hold several documents.
  bool side_by_side() const { return side_by_side_; }
  /// Int64 [batch, tokens]; undefined where there are none.
  const at::Tensor& places() const { return places_; }
  /// All tokens, in order; empty where each sample is one document.
  const DocumentRuns& runs() const { return runs_; }
  /// What a block hands on: x, and the places where it was given some.
  Tensors handed_on(const at::Tensor& x) const;

 private:
  void find_runs();

  std::string what_;
  at::Tensor places_;
  DocumentRuns runs_;
  bool side_by_side_ = false;
};

}  // namespace weft
