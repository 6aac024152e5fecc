#include "weft/exported/file_tensors.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/printable.h"
#include "weft/exported/bind_node.h"
#include "weft/exported/value_flow.h"

namespace weft {
namespace {

/// Weights whose rows are looked up by id.
std::set<std::string> embeddings(const ExportedGraph& graph) {
  std::set<std::string> values;
  for (const ExportedNode& node : graph.nodes) {
    const ExportedArgument* const weight =
        node.target == "torch.ops.aten.embedding.default" ? argument_named(node, "weight") : nullptr;
    if (weight != nullptr) values.insert(weight->values.begin(), weight->values.end());
  }
  return values;
}

/// Values that nodes add to in place, once for each node.
std::multiset<std::string> added_to(const ExportedGraph& graph) {
  std::multiset<std::string> values;
  std::map<std::string, std::string> names;  // those that an earlier addition returned, and what it added to
  for (const ExportedNode& node : graph.nodes) {
    const ExportedArgument* const self = node.target == "torch.ops.aten.add_.Tensor" ? argument_named(node, "self") : nullptr;
    if (self == nullptr || self->values.empty()) continue;
    const auto earlier = names.find(self->values.front());
    const std::string value = earlier == names.end() ? self->values.front() : earlier->second;
    values.insert(value);
    for (const std::string& output : node.outputs) names[output] = value;
  }
  return values;
}

}  // namespace

FileTensors::FileTensors(const ExportedGraph& graph, ExportedFile& file) : file_(file) {
  const std::set<std::string> statistics = running_statistics(graph);
  const std::set<std::string> tables = embeddings(graph);
  const std::map<std::string, std::string> first = first_names();
  counted_ = added_to(graph);
  for (const ExportedState& state : graph.states) {
    const ExportedTensor* const tensor = find(state.in_weights ? file.weights() : file.constants(), state.name);
    if (tensor == nullptr) {
      throw InputError(fmt::format("{}: it has no values of '{}'; export it again", graph.path, shortened(state.name)));
    }
    std::shared_ptr<HeldTensor>& held = by_record_[tensor->record];
    if (!held) {
      held = made(state, *tensor, statistics.count(state.value) > 0);
      if (state.in_weights) held->name = first.at(tensor->record);
      order_.push_back(held);
    }
    check_tied(graph, state, *tensor);
    held->calls += static_cast<int>(counted_.count(state.value));
    held->is_embedding |= tables.count(state.value) > 0;
    by_value_[state.value] = held;
  }
}

uint64_t FileTensors::digest(uint64_t of_graph) const {
  for (const std::shared_ptr<HeldTensor>& held : order_) {
    if (held->kind != HeldTensor::Kind::constant) continue;
    const std::string_view bytes(static_cast<const char*>(held->value.const_data_ptr()), held->value.nbytes());
    of_graph = fnv1a(bytes, fnv1a(fmt::format("{} {}", held->name, fmt::join(held->value.sizes(), " ")), of_graph));
  }
  return of_graph;
}

/// Tensors with one record are one tensor.
void FileTensors::check_tied(const ExportedGraph& graph, const ExportedState& state, const ExportedTensor& tensor) {
  const ExportedTensor& first = *firsts_.emplace(tensor.record, &tensor).first->second;
  if (first.type == tensor.type && first.shape == tensor.shape && first.is_trained == tensor.is_trained) return;
  throw InputError(
      fmt::format("{}: '{}' shares its values with a tensor of another type, shape or requires_grad; export a model whose "
                  "tied tensors are alike",
                  graph.path, shortened(state.name)));
}

/// By record: the first of the names that share it.
std::map<std::string, std::string> FileTensors::first_names() const {
  std::map<std::string, std::string> names;
  for (const auto& [name, tensor] : file_.weights()) names.emplace(tensor.record, name);
  return names;
}

std::shared_ptr<HeldTensor> FileTensors::made(const ExportedState& state, const ExportedTensor& tensor, bool is_statistic) {
  using Kind = HeldTensor::Kind;
  auto held = std::make_shared<HeldTensor>();
  held->name = state.name;
  const bool is_parameter = state.kind == ExportedState::Kind::parameter;
  if (is_parameter && c10::multiply_integers(tensor.shape) == 0)
    throw InputError(fmt::format("{}: '{}' has no elements; export a model without it", file_.path(), shortened(state.name)));
  if (is_parameter || is_statistic) {
    if (tensor.type != at::kFloat && tensor.type != at::kHalf && tensor.type != at::kBFloat16) {
      throw InputError(fmt::format("{}: '{}' is {}; export the model in float32: layout.precision chooses the type that trains",
                                   file_.path(), shortened(state.name), c10::toString(tensor.type)));
    }
    held->kind = is_parameter ? Kind::parameter : Kind::statistic;
    held->is_trained = tensor.is_trained;
    held->parameter =
        std::make_shared<Parameter>(Parameter{at::empty(tensor.shape, at::TensorOptions(at::kFloat).device(at::kMeta)), {}});
    return held;
  }
  const bool is_count = state.name.ends_with("num_batches_tracked") && counted_.count(state.value) > 0;
  held->kind = !state.in_weights ? Kind::constant : is_count ? Kind::count : Kind::buffer;
  held->value = file_.read(tensor);
  if (tensor.type == at::kHalf || tensor.type == at::kBFloat16) held->value = held->value.to(at::kFloat);
  return held;
}

}  // namespace weft
