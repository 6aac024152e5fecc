#include "weft/exported/sample_mask.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace weft {
namespace {

using Argument = ExportedArgument::Kind;

bool reads(const ExportedNode& node, const std::string& value) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& input) {
    return std::find(input.second.values.begin(), input.second.values.end(), value) != input.second.values.end();
  });
}

/// The one node that reads the value; null if several do, or it is what the model returns.
const ExportedNode* only_reader(const ExportedGraph& graph, const std::string& value) {
  const ExportedNode* found = nullptr;
  for (const ExportedNode& node : graph.nodes) {
    if (!reads(node, value)) continue;
    if (found != nullptr) return nullptr;
    found = &node;
  }
  const bool is_output = std::find(graph.outputs.begin(), graph.outputs.end(), value) != graph.outputs.end();
  return is_output ? nullptr : found;
}

bool is_new(const ExportedGraph& graph, const std::string& value) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const ExportedNode& node) {
    const bool makes_empty =
        node.target == "torch.ops.aten.empty.memory_format" || node.target == "torch.ops.aten.new_empty.default";
    return makes_empty && node.outputs == std::vector<std::string>{value};
  });
}

/// Rows per sample of a tensor with one element in each; 0 for any other.
int64_t rows_per_sample(const ExportedGraph& graph, const std::string& value) {
  const auto shape = graph.shapes.find(value), input = graph.shapes.find(graph.inputs.front());
  if (shape == graph.shapes.end() || input == graph.shapes.end() || shape->second.dims.empty()) return 0;
  const auto& dims = shape->second.dims;
  const bool has_one =
      std::all_of(dims.begin() + 1, dims.end(), [](const ExportedDim& x) { return x.symbol.empty() && x.size == 1; });
  return has_one && dims.front().symbol == input->second.dims.front().symbol ? dims.front().factor : 0;
}

bool is_number(const ExportedArgument& argument, double number) {
  return argument.kind == Argument::number && argument.numbers.front() == number;
}

}  // namespace

std::optional<SampleMask> sample_mask_of(const ExportedGraph& graph, const ExportedNode& node) {
  if (node.target != "torch.ops.aten.bernoulli_.float" || node.inputs.size() < 2 || node.outputs.size() != 1) return {};
  const ExportedArgument &self = node.inputs[0].second, &p = node.inputs[1].second;
  if (self.kind != Argument::value || p.kind != Argument::number) return {};
  SampleMask mask{.factor = rows_per_sample(graph, node.outputs.front())};
  if (mask.factor < 1 || !is_new(graph, self.values.front()) || only_reader(graph, self.values.front()) != &node) return {};
  const ExportedNode* reader = only_reader(graph, node.outputs.front());
  static const std::set<std::string> divides = {"torch.ops.aten.div_.Tensor", "torch.ops.aten.div.Tensor",
                                                "torch.ops.aten.div_.Scalar", "torch.ops.aten.div.Scalar"};
  if (reader != nullptr && divides.count(reader->target) > 0 && reader->inputs.size() == 2 && reader->outputs.size() == 1 &&
      reader->inputs[0].second.values == node.outputs && is_number(reader->inputs[1].second, p.numbers.front())) {
    mask.evaluated = p.numbers.front();
    reader = only_reader(graph, reader->outputs.front());
  }
  if (reader == nullptr || reader->target != "torch.ops.aten.mul.Tensor") return {};
  return mask;
}

}  // namespace weft
