#include "weft/exported/value_flow.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/exported/bind_node.h"

namespace weft {

std::set<std::string> running_statistics(const ExportedGraph& graph) {
  std::set<std::string> values;
  for (const ExportedNode& node : graph.nodes) {
    if (node.target != "torch.ops.aten.batch_norm.default" && node.target != "torch.ops.aten.instance_norm.default") continue;
    const bool updates = std::any_of(node.inputs.begin(), node.inputs.end(), [](const auto& input) {
      const bool is_flag = input.first == "training" || input.first == "use_input_stats";
      return is_flag && !input.second.integers.empty() && input.second.integers.front() != 0;
    });
    for (const auto& [name, argument] : node.inputs) {
      if (updates && name.starts_with("running_")) values.insert(argument.values.begin(), argument.values.end());
    }
  }
  return values;
}

ValueFlow::ValueFlow(const ExportedGraph& graph, const std::vector<BoundNode>& bound)
    : graph_(graph), bound_(bound), statistics_(running_statistics(graph)) {
  std::set<std::string> known(graph.inputs.begin(), graph.inputs.end());
  std::set<std::string> held;
  for (const ExportedState& state : graph.states) held.insert(state.value);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ExportedNode& node = graph.nodes[i];
    for (const auto& [name, argument] : node.inputs) {
      for (const std::string& value : argument.values) {
        if (bound[i].kind != BoundNode::Kind::call) continue;
        first_reads_.emplace(value, i);
        last_reads_[value] = i;
      }
    }
    for (const std::string& value : bound[i].changes) {
      if (bound[i].kind != BoundNode::Kind::call || held.count(root(value)) == 0) continue;
      throw InputError(
          fmt::format("{}: operator {} changes '{}', which the model holds, in its forward; only BatchNorm's "
                      "statistics may change: export a forward that makes new tensors",
                      graph.path, shortened(node.target), shortened(root(value))));
    }
    for (const std::string& output : node.outputs) {
      if (output.empty()) continue;
      if (!known.insert(output).second || held.count(output) > 0)
        throw InputError(fmt::format("{}: two nodes make '{}'; export it again", graph.path, shortened(output)));
      makers_[output] = static_cast<int>(i);
      if (!bound[i].views.empty()) roots_[output] = root(bound[i].views);
    }
  }
  for (const std::string& output : graph.outputs) last_reads_[output] = graph.nodes.size();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (bound[i].replaces) check_replaced(i);
  }
  written_ = changed_roots(0, graph.nodes.size());
}

void ValueFlow::check_replaced(size_t node) const {
  const std::string changed = root(bound_[node].changes.front());
  for (const auto& [value, last_read] : last_reads_) {
    if (last_read <= node || maker(value) >= static_cast<int>(node) || root(value) != changed) continue;
    refuse_node(graph_, graph_.nodes[node],
                fmt::format("it changes '{}' in place, which is read again as '{}'; set inplace=False", shortened(changed),
                            shortened(value)));
  }
}

std::string ValueFlow::root(const std::string& value) const {
  const auto found = roots_.find(value);
  return found == roots_.end() ? value : found->second;
}

int ValueFlow::maker(const std::string& value) const {
  const auto found = makers_.find(value);
  return found == makers_.end() ? -1 : found->second;
}

std::vector<std::string> ValueFlow::live_at(size_t node) const {
  std::vector<std::string> live;
  const auto add = [&](const std::string& value) {
    const auto read = last_reads_.find(value);
    if (read != last_reads_.end() && read->second >= node && graph_.shapes.count(value) > 0) live.push_back(value);
  };
  for (const std::string& input : graph_.inputs) add(input);
  for (size_t i = 0; i < node; ++i) {
    if (bound_[i].kind != BoundNode::Kind::call) continue;
    for (const std::string& output : graph_.nodes[i].outputs) add(output);
  }
  for (const ExportedState& state : graph_.states) {
    const auto first = first_reads_.find(state.value);
    const bool is_shared = state.kind == ExportedState::Kind::buffer && state.in_weights && statistics_.count(state.value) == 0;
    if (is_shared && first != first_reads_.end() && first->second < node) add(state.value);
  }
  return live;
}

std::set<std::string> ValueFlow::changed_roots(size_t first, size_t last) const {
  std::set<std::string> roots;
  for (size_t i = first; i < last; ++i) {
    if (bound_[i].kind != BoundNode::Kind::call) continue;
    for (const std::string& value : bound_[i].changes) roots.insert(root(value));
  }
  return roots;
}

std::set<std::string> ValueFlow::changed(size_t first, size_t last) const {
  const std::set<std::string> roots = changed_roots(first, last);
  std::set<std::string> values;
  for (const std::string& value : live_at(first)) {
    if (roots.count(root(value)) > 0) values.insert(value);
  }
  return values;
}

std::string ValueFlow::lost_change(size_t first, size_t last) const {
  std::map<std::string, int> names;
  for (const std::string& value : changed(first, last)) {
    if (++names[root(value)] > 1) return value;
  }
  return {};
}

}  // namespace weft
