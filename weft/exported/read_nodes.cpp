#include "weft/exported/read_nodes.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/file_error.h"
#include "weft/base/hash.h"
#include "weft/exported/read_values.h"

namespace weft {
namespace {

using GraphJson = nlohmann::json;
using ArgumentKind = ExportedArgument::Kind;

/// "L__self__,,C;L__self__h.0,h.0,C": the second fields, without the "@1" of a further call. Nodes that belong to no module
/// have text without such fields.
std::vector<std::string> modules_of(const std::string& stack) {
  std::vector<std::string> paths;
  for (size_t begin = 0; begin < stack.size();) {
    const size_t end = std::min(stack.find(';', begin), stack.size());
    const std::string_view entry = std::string_view(stack).substr(begin, end - begin);
    const size_t first = entry.find(','), second = first == std::string_view::npos ? first : entry.find(',', first + 1);
    begin = end + 1;
    if (second == std::string_view::npos || !entry.starts_with("L_")) continue;
    const std::string_view path = entry.substr(first + 1, second - first - 1);
    paths.emplace_back(path.substr(0, path.find('@')));
  }
  return paths;
}

ExportedNode node_of(const GraphJson& json) {
  ExportedNode node{.name = {}, .target = json.at("target").get<std::string>(), .modules = {}, .inputs = {}, .outputs = {}};
  for (const GraphJson& input : json.at("inputs")) {
    node.inputs.emplace_back(input.at("name").get<std::string>(), argument_of(input.at("arg")));
  }
  for (const GraphJson& output : json.at("outputs")) {
    const ExportedArgument argument = argument_of(output);
    node.returns_list |= argument.kind == ArgumentKind::values;
    if (argument.values.empty()) node.outputs.emplace_back();
    for (const std::string& value : argument.values) node.outputs.push_back(value);
  }
  const GraphJson& metadata = json.at("metadata");
  if (const auto stack = metadata.find("nn_module_stack"); stack != metadata.end())
    node.modules = modules_of(stack->get<std::string>());
  node.name = json.value("name", GraphJson()).is_string() ? json.at("name").get<std::string>()
              : node.outputs.empty()                      ? node.target
                                                          : node.outputs.front();
  return node;
}

/// Nodes that share their names: of the program, or of a region in it.
struct NodeScope {
  std::string prefix = {};                        ///< of the names of its values
  std::map<std::string, std::string> names = {};  ///< those that the surrounding scope has too, by their names here
  bool no_grad = false;

  std::string name_of(const std::string& name) const {
    const auto found = names.find(name);
    return found != names.end() ? found->second : name.empty() ? name : prefix + name;
  }
};

void rename(ExportedArgument& argument, const NodeScope& scope) {
  for (std::string& value : argument.values) value = scope.name_of(value);
}

/// The graph among the node's arguments if it is a region whose nodes run as others do; null otherwise.
const GraphJson* region_of(const ExportedNode& node, const GraphJson& json, bool& no_grad) {
  const auto flag = [&](size_t at) {
    const bool is_bool = node.inputs.size() > at && node.inputs[at].second.kind == ArgumentKind::boolean;
    return is_bool ? node.inputs[at].second.integers.front() : -1;
  };
  constexpr size_t kEnabled = 2;  // of autocast: after the device's type and the element type
  size_t graph = 0;
  if (node.target == "torch.ops.higher_order.wrap_with_set_grad_enabled" && flag(0) >= 0) {
    no_grad = flag(0) == 0;
    graph = 1;
  } else if (node.target == "torch.ops.higher_order.wrap_with_autocast" && flag(kEnabled) == 0) {
    graph = kEnabled + 2;
  }
  const auto& inputs = json.at("inputs");
  if (graph == 0 || graph >= inputs.size()) return nullptr;
  const auto [kind, region] = entry_of(inputs[graph].at("arg"));
  return kind == "as_graph" ? &region : nullptr;
}

/// Names that a region shares with its surroundings: it has the arguments after its graph as inputs. Throws FileError where it
/// returns what it was given, which no node makes.
std::map<std::string, std::string> shared_names(const GraphJson& graph, const ExportedNode& node) {
  std::map<std::string, std::string> names;
  const GraphJson &inputs = graph.at("inputs"), &outputs = graph.at("outputs");
  if (inputs.size() > node.inputs.size() || outputs.size() != node.outputs.size())
    throw FileError("a region has other inputs or outputs than its node");
  const size_t first = node.inputs.size() - inputs.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ExportedArgument inner = argument_of(inputs[i]), &outer = node.inputs[first + i].second;
    if (inner.kind == ArgumentKind::value && outer.kind == ArgumentKind::value)
      names[inner.values.front()] = outer.values.front();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ExportedArgument inner = argument_of(outputs[i]);
    if (inner.kind != ArgumentKind::value || !names.emplace(inner.values.front(), node.outputs[i]).second)
      throw FileError(
          "a region of no_grad or autocast returns what it was given, or the same tensor twice; export it without the region");
  }
  return names;
}

void append_nodes(ExportedGraph& graph, const GraphJson& nodes, const NodeScope& scope) {
  for (const GraphJson& json : nodes) {
    ExportedNode node = node_of(json);
    for (auto& [name, argument] : node.inputs) rename(argument, scope);
    for (std::string& output : node.outputs) output = scope.name_of(output);
    node.name = scope.prefix + node.name;
    node.no_grad = scope.no_grad;
    bool no_grad = scope.no_grad;
    if (const GraphJson* const region = region_of(node, json, no_grad); region != nullptr) {
      const GraphJson& inner = region->at("graph");
      const NodeScope own{.prefix = node.name + ".", .names = shared_names(inner, node), .no_grad = no_grad};
      for (auto& [name, shape] : shapes_of(inner.at("tensor_values")))
        graph.shapes.emplace(own.name_of(name), std::move(shape));
      append_nodes(graph, inner.at("nodes"), own);
      continue;
    }
    for (const char* part : {"target", "inputs", "outputs"}) graph.digest = fnv1a(json.at(part).dump(), graph.digest);
    graph.nodes.push_back(std::move(node));
  }
}

}  // namespace

void read_nodes(ExportedGraph& graph, const GraphJson& nodes) { append_nodes(graph, nodes, {}); }

}  // namespace weft
