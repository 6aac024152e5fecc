// ExportedBlock: consecutive operators of an exported graph, as a block.
//
// A heavy header (the dispatcher's), for sources of this folder alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/exported/bind_node.h"
#include "weft/exported/cut.h"
#include "weft/exported/held_tensor.h"
#include "weft/exported/size_guards.h"
#include "weft/exported/split_flow.h"
#include "weft/nn/block.h"

namespace weft {

/// What a block runs.
struct BlockOperations {
  std::string path = {};  ///< the file, for errors
  std::string name = {};
  std::vector<Operation> operations = {};
  int num_slots = 0;
  std::vector<int> inputs = {}, outputs = {};          ///< slots
  std::vector<bool> copied = {};                       ///< by input: the block changes it in place
  std::vector<std::pair<int, std::string>> held = {};  ///< slots of values that the program holds
  int samples_input = -1;                              ///< the input that shows the number of samples; -1: none does
  std::string split_output = {};                       ///< the layer whose parts are its first output; empty: it is whole
  int64_t samples_dim = 0, samples_factor = 1;         ///< its size there is factor x samples
  std::shared_ptr<const SizeGuards> guards = {};       ///< of the number of samples; null: none
};

/// Returns the operations of a range of nodes, which gets `inputs` and returns `outputs`. Throws InputError if a value is
/// missing.
BlockOperations block_operations(const ExportedGraph& graph, const std::vector<BoundNode>& bound, const ValueFlow& flow,
                                 const SplitFlow& splits, const NodeRange& range, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs);

/// The block. `held` are the tensors of `operations.held`, in order; `owned` those that it describes.
std::shared_ptr<Block> exported_block(BlockOperations operations, std::vector<std::shared_ptr<HeldTensor>> held,
                                      std::vector<std::shared_ptr<HeldTensor>> owned);

}  // namespace weft
