// Binds nodes of an exported graph to LibTorch's operators: each argument to the schema's type.
//
// A heavy header (the dispatcher's), for sources of this folder alone.
#pragma once

#include <c10/util/FunctionRef.h>

#include "weft/exported/operation.h"

namespace weft {

/// What becomes of a node.
struct BoundNode {
  enum class Kind {
    skipped,     ///< an assertion about sizes or values, which training passes over
    counted,     ///< advances a BatchNorm's count of forwards, which the block does once per step
    size,        ///< size of a tensor: a number
    arithmetic,  ///< on numbers
    call,        ///< of an operator
  };
  Kind kind = Kind::call;
  std::optional<c10::OperatorHandle> handle = {};
  std::vector<std::string> changes = {};  ///< values that the operator changes in place
  bool replaces = false;                  ///< makes a new tensor in place of the one it changes, which nothing reads later
  std::string views = {};                 ///< the value whose memory its outputs share; empty: none, or unknown
};

/// Looks up the operators of all nodes. Throws InputError, which names the first that weft does not train: control flow, custom
/// operators, those whose results on the host decide what follows.
std::vector<BoundNode> bind_nodes(const ExportedGraph& graph);

/// The node's argument of that name; null if it is not given.
const ExportedArgument* argument_named(const ExportedNode& node, const std::string& name);
/// Whether an argument of that name says that the model trains.
bool is_mode(const std::string& argument);
/// Throws InputError with the file, the operator, its module and `text`.
[[noreturn]] void refuse_node(const ExportedGraph& graph, const ExportedNode& node, const std::string& text);

/// Returns the operation of a call or of arithmetic. `slot_of` gives a value's slot. Throws InputError for an argument that
/// does not fit the schema.
Operation make_operation(const ExportedGraph& graph, const ExportedNode& node, const BoundNode& bound,
                         c10::function_ref<int(const std::string&)> slot_of);

}  // namespace weft
