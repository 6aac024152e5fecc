// Rules by operator: how parts go through a call.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/exported/bind_node.h"
#include "weft/exported/split_call.h"
#include "weft/exported/split_form.h"
#include "weft/exported/value_flow.h"

namespace weft {

/// What the rules read and write.
struct SplitState {
  const ExportedGraph& graph;
  const ValueFlow& flow;
  std::map<std::string, SplitForm>& forms;  ///< of values so far; others are whole
  SplitSources& sources;
};

/// Returns what changes in a call that takes parts, and adds the forms of what it returns. Throws InputError if it cannot take
/// them as it does.
SplitCall split_call(const SplitState& state, const ExportedNode& node, const BoundNode& bound);

}  // namespace weft
