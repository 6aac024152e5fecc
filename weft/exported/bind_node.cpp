#include "weft/exported/bind_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/exported/operator_rule.h"

namespace weft {
namespace {

constexpr std::string_view kOperators = "torch.ops.", kAten = "torch.ops.aten.";

/// Operators that say what was true of the example, and do nothing.
bool is_assertion(std::string_view name) {
  return name.starts_with("_assert_") || name.starts_with("sym_constrain_range") || name.starts_with("_functional_assert");
}

/// Splits "aten.linear.default" into the dispatcher's names: {"aten::linear", ""}.
c10::OperatorName operator_name(std::string_view target) {
  const std::string_view name = target.substr(kOperators.size());
  const size_t first = name.find('.'), last = name.rfind('.');
  if (first == std::string_view::npos || last == first) return {std::string(name), ""};
  const std::string_view overload = name.substr(last + 1);
  return {fmt::format("{}::{}", name.substr(0, first), name.substr(first + 1, last - first - 1)),
          overload == "default" ? "" : std::string(overload)};
}

/// Notes what the operator changes, and whose memory it returns.
void note_memory(const ExportedNode& node, BoundNode& bound) {
  const c10::FunctionSchema& schema = bound.handle->schema();
  for (const c10::Argument& argument : schema.arguments()) {
    const ExportedArgument* const given = argument_named(node, argument.name());
    if (argument.alias_info() == nullptr || given == nullptr || given->values.empty()) continue;
    if (argument.alias_info()->isWrite()) bound.changes.insert(bound.changes.end(), given->values.begin(), given->values.end());
    if (bound.views.empty()) bound.views = given->values.front();
  }
  static const std::set<std::string_view> pass_on = {
      "aten::dropout",       "aten::feature_dropout",   "aten::alpha_dropout",  "aten::feature_alpha_dropout",
      "aten::type_as",       "aten::atleast_1d",        "aten::atleast_2d",     "aten::atleast_3d",
      "aten::meshgrid",      "aten::broadcast_tensors", "aten::cartesian_prod", "aten::chain_matmul",
      "aten::conj_physical", "aten::unsafe_split",      "aten::unsafe_chunk",   "aten::unsafe_split_with_sizes",
      "aten::einsum"};
  const std::string& name = bound.handle->operator_name().name;
  if (pass_on.count(name) == 0 || !bound.views.empty()) return;  // their schemas do not say it
  const ExportedArgument* const given = name == "aten::einsum" ? argument_named(node, "tensors")
                                        : node.inputs.empty()  ? nullptr
                                                               : &node.inputs.front().second;
  const bool of_several = name == "aten::einsum" && given != nullptr && given->values.size() > 1;  // products
  if (given != nullptr && !given->values.empty() && !of_several) bound.views = given->values.front();
}

void refuse_unknown(const ExportedGraph& graph, const ExportedNode& node) {
  const std::string& target = node.target;
  if (target.starts_with("torch.ops.higher_order.")) {
    refuse_node(graph, node,
                "control flow and regions (cond, scan, no_grad, autocast inside forward) are not trained; export a forward "
                "without them");
  }
  if (!target.starts_with(kOperators)) refuse_node(graph, node, "it is not an operator of PyTorch that weft knows");
  if (!target.starts_with(kAten)) {
    refuse_node(graph, node, "a custom operator, which LibTorch does not have; write it with PyTorch's own operators");
  }
}

BoundNode bind_call(const ExportedGraph& graph, const ExportedNode& node) {
  static const std::set<std::string_view> of_the_host = {"aten::item", "aten::_local_scalar_dense", "aten::equal",
                                                         "aten::is_nonzero"};
  const c10::OperatorName name = operator_name(node.target);
  if (of_the_host.count(name.name) > 0) {
    refuse_node(graph, node, "a value on the host decides what follows; export a forward that keeps values in tensors");
  }
  if (name.name == "aten::_fused_dropout" || name.name == "aten::native_dropout")
    refuse_node(graph, node, "export dropout as torch.nn.Dropout, without decompositions");
  BoundNode bound{.handle = c10::Dispatcher::singleton().findSchema(name)};
  if (!bound.handle) refuse_node(graph, node, "LibTorch 2.11 has no such operator; export it with PyTorch 2.11");
  if (const std::string reason = refused_because(*bound.handle); !reason.empty()) refuse_node(graph, node, reason);
  note_memory(node, bound);
  bound.replaces = name.name == "aten::dropout_" && !bound.changes.empty();
  return bound;
}

/// Names of the counts of forwards that BatchNorm keeps.
std::set<std::string> counts_of(const ExportedGraph& graph) {
  std::set<std::string> counts;
  for (const ExportedState& state : graph.states) {
    const bool is_count = state.kind == ExportedState::Kind::buffer && state.name.ends_with("num_batches_tracked");
    if (is_count) counts.insert(state.value);
  }
  return counts;
}

/// `counts`: names of counts, to which it adds those that the node gives them.
BoundNode bound_node(const ExportedGraph& graph, const ExportedNode& node, std::set<std::string>& counts) {
  using Kind = BoundNode::Kind;
  const std::string& target = node.target;
  if (target.starts_with(kAten) && is_assertion(std::string_view(target).substr(kAten.size()))) return {.kind = Kind::skipped};
  if (target == "torch.ops.aten.sym_size.int") return {.kind = Kind::size};
  if (target.starts_with("_operator.") || target.starts_with("torch.sym_") || target.starts_with("torch._sym") ||
      target.starts_with("math.")) {
    return {.kind = Kind::arithmetic};
  }
  refuse_unknown(graph, node);
  BoundNode bound = bind_call(graph, node);
  if (bound.handle->operator_name().name == "aten::add_" && !bound.changes.empty() && counts.count(bound.changes.front()) > 0) {
    bound.kind = Kind::counted;
    counts.insert(node.outputs.begin(), node.outputs.end());
  }
  return bound;
}

}  // namespace

void refuse_node(const ExportedGraph& graph, const ExportedNode& node, const std::string& text) {
  const std::string where =
      node.modules.empty() || node.modules.back().empty() ? "" : fmt::format(" in module '{}'", shortened(node.modules.back()));
  throw InputError(fmt::format("{}: operator {}{}: {}", graph.path, shortened(node.target), where, text));
}

const ExportedArgument* argument_named(const ExportedNode& node, const std::string& name) {
  for (const auto& [key, argument] : node.inputs) {
    if (key == name) return &argument;
  }
  return nullptr;
}

bool is_mode(const std::string& argument) { return argument == "train" || argument == "training"; }

std::vector<BoundNode> bind_nodes(const ExportedGraph& graph) {
  std::vector<BoundNode> bound;
  bound.reserve(graph.nodes.size());
  std::set<std::string> counts = counts_of(graph);
  for (const ExportedNode& node : graph.nodes) bound.push_back(bound_node(graph, node, counts));
  return bound;
}

}  // namespace weft
