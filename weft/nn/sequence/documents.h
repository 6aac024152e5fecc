// Documents: samples that pack several documents, whose tokens must not see tokens of other documents.
//
// A batch marks documents by its second input, int64 [batch, tokens]: each token's position within its document, from 0. A 0
// starts a document, and within it positions rise by one. Positions travel with the activation along the blocks, at 8 bytes per
// token between stages, and take no gradient. A batch without that input has one document per sample.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/block.h"

namespace weft {

/// Tokens [begin, begin + tokens) of a sample that form one document, or of several consecutive samples, one document in each.
struct DocumentRun {
  int64_t sample = 0;                                         ///< first sample
  int64_t samples = 1;                                        ///< number of samples; in each, the tokens are one document
  int64_t begin = 0;                                          ///< first token
  int64_t tokens = 0;                                         ///< per sample
  bool operator==(const DocumentRun& other) const = default;  ///< member by member
};

/// All tokens of a micro-batch, in order.
using DocumentRuns = std::vector<DocumentRun>;

/// Documents of a block's inputs.
class Documents {
 public:
  /// Reads the inputs of a block, {x, places} or {x}. Values are read on the host, which waits for a device only for places
  /// whose values it does not know, once (nn/host_values.h): a trainer's and those of other stages it knows; on the meta
  /// device, without values, each sample counts as one document. `what` names the block in errors. Throws InputError for places
  /// of a wrong type or number of dims, that do not begin at 0 or that jump, and for samples shared by ranks (Context::cp).
  Documents(const Tensors& inputs, const Context& context, const std::string& what);

  /// Throws InputError unless places, if any, have the shape of the token ids.
  void check_beside(const at::Tensor& ids) const;

  /// Returns whether positions must come from places(), as a sample may hold several documents.
  bool is_packed() const { return is_packed_; }
  /// Each token's position in its document, int64 [batch, tokens]; undefined if inputs had none.
  const at::Tensor& places() const { return places_; }
  /// All tokens, in order; empty if each sample is one document.
  const DocumentRuns& runs() const { return runs_; }
  /// Outputs of a block: x, and the places if it was given some.
  Tensors outputs_with_places(const at::Tensor& x) const;

 private:
  void find_runs();

  std::string what_;
  at::Tensor places_;
  DocumentRuns runs_;
  bool is_packed_ = false;
};

}  // namespace weft
