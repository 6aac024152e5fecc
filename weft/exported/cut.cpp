#include "weft/exported/cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/exported/module_patterns.h"

namespace weft {
namespace {

constexpr double kLeastShare = 0.01;

/// Elements of the parameters that nodes read.
class ParameterCount {
 public:
  explicit ParameterCount(const ExportedGraph& graph) {
    for (const ExportedState& state : graph.states) {
      const auto shape = graph.shapes.find(state.value);
      if (state.kind != ExportedState::Kind::parameter || shape == graph.shapes.end()) continue;
      double numel = 1.0;
      for (const ExportedDim& dim : shape->second.dims) numel *= static_cast<double>(dim.size);
      numel_[state.value] = numel;
      total_ += numel;
    }
  }

  double total() const { return total_; }
  /// Adds the elements that the node reads and no node before it with the same `seen`.
  double of(const ExportedNode& node, std::set<std::string>& seen) const {
    double sum = 0.0;
    for (const auto& [name, argument] : node.inputs) {
      for (const std::string& value : argument.values) {
        const auto found = numel_.find(value);
        if (found != numel_.end() && seen.insert(value).second) sum += found->second;
      }
    }
    return sum;
  }

 private:
  std::map<std::string, double> numel_;
  double total_ = 0.0;
};

/// The module by which a node is cut; empty if it is between them.
using ModuleOf = std::function<std::string(const ExportedNode&)>;

/// The outermost module of the node that is not opened.
std::string first_closed(const ExportedNode& node, const std::set<std::string>& opened) {
  for (const std::string& path : node.modules) {
    if (opened.count(path) == 0) return path;
  }
  return {};
}

ModuleOf largest_modules(const ExportedGraph& graph, const ParameterCount& count) {
  std::set<std::string> opened = {""};
  while (true) {
    std::map<std::string, double> numel;
    std::map<std::string, std::set<std::string>> seen, inner;
    for (const ExportedNode& node : graph.nodes) {
      const std::string path = first_closed(node, opened);
      numel[path] += count.of(node, seen[path]);
      const auto at = std::find(node.modules.begin(), node.modules.end(), path);
      if (at != node.modules.end() && at + 1 != node.modules.end()) inner[path].insert(*(at + 1));
    }
    const size_t before = opened.size();
    for (const auto& [path, elements] : numel) {
      if (!path.empty() && elements > count.total() / 2 && !inner[path].empty()) opened.insert(path);
    }
    if (opened.size() == before) break;
  }
  return [opened](const ExportedNode& node) { return first_closed(node, opened); };
}

ModuleOf matching_modules(const ExportedGraph& graph, const std::string& blocks) {
  const std::vector<std::string> patterns = patterns_in(blocks);
  const std::vector<std::string> paths = module_paths(graph);
  for (const std::string& pattern : patterns) {
    if (std::any_of(paths.begin(), paths.end(), [&](const std::string& path) { return matches_path(pattern, path); })) continue;
    throw InputError(
        fmt::format("model.blocks: '{}' matches no module of {}; it has {}", shortened(pattern), graph.path, some_of(paths)));
  }
  return [patterns](const ExportedNode& node) -> std::string {
    for (const std::string& path : node.modules) {
      for (const std::string& pattern : patterns) {
        if (matches_path(pattern, path)) return path;
      }
    }
    return {};
  };
}

struct Run {
  std::string module;
  size_t first = 0, last = 0;
  double numel = 0.0;
};

/// Maximal runs of nodes of one module. Nodes that belong to no module, such as sizes, join those before them.
std::vector<Run> runs_of(const ExportedGraph& graph, const ModuleOf& module_of, const ParameterCount& count) {
  std::vector<Run> runs;
  std::set<std::string> seen;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ExportedNode& node = graph.nodes[i];
    const std::string module = module_of(node);
    if (runs.empty() || (!node.modules.empty() && module != runs.back().module)) {
      runs.push_back({module, i, i, 0.0});
      seen.clear();
    }
    runs.back().last = i + 1;
    runs.back().numel += count.of(node, seen);
  }
  return runs;
}

void join(Run& run, const Run& next) {
  if (next.numel > run.numel) run.module = next.module;
  run.last = next.last;
  run.numel += next.numel;
}

/// A complex value of parameters that is made before this node and read from it on; empty: none. Blocks hand on gradients of
/// real values.
std::string complex_across(const ExportedGraph& graph, size_t begin) {
  std::set<std::string> learnt, made;
  for (const ExportedState& state : graph.states) {
    if (state.kind == ExportedState::Kind::parameter) learnt.insert(state.value);
  }
  const auto is_learnt = [&](const auto& input) {
    const std::vector<std::string>& values = input.second.values;
    return std::any_of(values.begin(), values.end(), [&](const std::string& value) { return learnt.count(value) > 0; });
  };
  for (size_t i = 0; i < begin; ++i) {
    const ExportedNode& node = graph.nodes[i];
    if (node.no_grad || std::none_of(node.inputs.begin(), node.inputs.end(), is_learnt)) continue;
    for (const std::string& output : node.outputs) {
      learnt.insert(output);
      const auto shape = graph.shapes.find(output);
      if (shape != graph.shapes.end() && at::isComplexType(shape->second.type)) made.insert(output);
    }
  }
  if (made.empty()) return {};
  for (size_t i = begin; i < graph.nodes.size(); ++i) {
    for (const auto& [name, argument] : graph.nodes[i].inputs) {
      for (const std::string& value : argument.values) {
        if (made.count(value) > 0) return value;
      }
    }
  }
  return {};
}

/// Joins the last run to those before it while it would lose a change, or take complex values; refused where the recipe chose
/// the cuts.
void keep_whole(std::vector<Run>& runs, const ExportedGraph& graph, const ValueFlow& flow, bool is_auto) {
  while (runs.size() > 1) {
    const Run last = runs.back();
    const std::string lost = flow.lost_change(last.first, last.last), complex = complex_across(graph, last.first);
    if (lost.empty() && complex.empty()) return;
    if (!is_auto) {
      throw InputError(fmt::format(
          "model.blocks: module '{}' {}, so no block can begin there; cut elsewhere", shortened(last.module),
          lost.empty() ? fmt::format("reads the complex value '{}' of a module before it", shortened(complex))
                       : fmt::format("changes '{}' in place, which is also read under another name", shortened(lost))));
    }
    runs.pop_back();
    join(runs.back(), last);
  }
}

/// Joins the runs between two that update the same running statistic: one block does.
void join_statistics(std::vector<Run>& runs, const ExportedGraph& graph) {
  const std::set<std::string> statistics = running_statistics(graph);
  std::map<std::string, size_t> first;  // index of the first run that updates it
  for (size_t r = 0; r < runs.size(); ++r) {
    size_t earliest = r;
    for (size_t i = runs[r].first; i < runs[r].last; ++i) {
      for (const auto& [name, argument] : graph.nodes[i].inputs) {
        for (const std::string& value : argument.values) {
          if (statistics.count(value) > 0) earliest = std::min(earliest, first.emplace(value, r).first->second);
        }
      }
    }
    for (; r > earliest; --r) {
      const Run last = runs[r];
      runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(r));
      join(runs[r - 1], last);
    }
    for (auto& [value, run] : first) run = std::min(run, r);
  }
}

}  // namespace

std::vector<NodeRange> cut_graph(const ExportedGraph& graph, const ValueFlow& flow, const std::string& blocks) {
  const ParameterCount count(graph);
  const bool is_auto = blocks == "auto";
  const double least = is_auto ? kLeastShare * count.total() : 0.0;
  std::vector<Run> joined;
  for (const Run& run : runs_of(graph, is_auto ? largest_modules(graph, count) : matching_modules(graph, blocks), count)) {
    const bool is_small = run.numel <= least, first_is_small = joined.size() == 1 && joined.front().numel <= least;
    if (joined.empty() || !(is_small || first_is_small))
      joined.push_back(run);
    else
      join(joined.back(), run);
    keep_whole(joined, graph, flow, is_auto);
  }
  if (is_auto) join_statistics(joined, graph);
  std::vector<NodeRange> ranges;
  std::map<std::string, int> times;
  for (const Run& run : joined) {
    const std::string name = run.module.empty() ? "model" : run.module;
    const int time = ++times[name];
    ranges.push_back({time == 1 ? name : fmt::format("{}@{}", name, time), run.first, run.last});
  }
  return ranges;
}

}  // namespace weft
