// SplitFlow: layers of an exported graph that are split over the ranks of tp, chosen by patterns of their modules' paths, and
// what that changes in the calls between them (Shoeybi et al. 2019, arXiv:1909.08053).
//
// A linear layer by columns makes a part of its output's features on each rank; operators carry the division on
// (parts_call.h), until a linear layer by rows sums over it. Whole values beside parts are equal on all ranks: each rank's
// gradient of them is a term of a sum.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "weft/exported/file_tensors.h"
#include "weft/exported/split_call.h"
#include "weft/exported/split_form.h"
#include "weft/exported/split_patterns.h"
#include "weft/exported/value_flow.h"
#include "weft/nn/split_table.h"

namespace weft {

/// Made once for a graph, which must outlive it.
class SplitFlow {
 public:
  /// Throws InputError for a pattern without a layer, and for an operator that cannot take parts.
  SplitFlow(const ExportedGraph& graph, const std::vector<BoundNode>& bound, const ValueFlow& flow, const FileTensors& tensors,
            const SplitPatterns& patterns);

  const std::map<size_t, SplitCall>& calls() const { return calls_; }  ///< by node
  /// The value's form; null if it is whole.
  const SplitForm* form(const std::string& value) const;
  /// Name of a layer that divided the value, which has a form.
  std::string layer_of(const std::string& value) const;
  /// Rules for the layers.
  SplitTable rules() const;

 private:
  /// A layer whose weight is divided.
  struct Layer {
    std::string name;  ///< its weight's, without ".weight"
    SplitKind kind = SplitKind::columns;
    bool is_transposed = false;  ///< of addmm
    int64_t segments = 1;
    int64_t length = 0;  ///< of a segment
    int source = -1;     ///< -1: no node yet
  };
  using Held = const HeldTensor*;

  void claim(SplitKind kind, const std::string& patterns);
  void claim(size_t node, SplitKind kind, int64_t segments);
  Held held(const ExportedArgument* argument) const;  ///< null: a tensor that the program does not hold
  Layer* layer_of(const ExportedArgument* weight);
  bool is_divided(const HeldTensor& tensor) const;  ///< weight or bias of a layer
  void pass(size_t node);
  void linear(size_t node, Layer& layer);
  void embedding(size_t node, Layer& layer);
  void check_bias(size_t node, const Layer& layer) const;

  const ExportedGraph& graph_;
  const std::vector<BoundNode>& bound_;
  const ValueFlow& flow_;
  const FileTensors& tensors_;
  std::set<std::string> held_;    ///< values that the program holds
  std::map<Held, Layer> layers_;  ///< by weight
  std::map<std::string, SplitForm> forms_;
  std::map<size_t, SplitCall> calls_;
  SplitSources sources_;
};

}  // namespace weft
