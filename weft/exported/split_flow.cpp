#include "weft/exported/split_flow.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/exported/bind_node.h"
#include "weft/exported/module_patterns.h"
#include "weft/exported/parts_call.h"

namespace weft {
namespace {

constexpr const char* kLinear = "torch.ops.aten.linear.default";
constexpr const char* kEmbedding = "torch.ops.aten.embedding.default";
constexpr const char* kAddmm = "torch.ops.aten.addmm.default";
constexpr std::string_view kWeight = ".weight";

/// A pattern, "attn.qkv:3".
struct LayerPattern {
  std::string path;
  int64_t segments = 1;
};

LayerPattern pattern_of(const std::string& key, const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text};
  const std::string number = text.substr(colon + 1);
  const bool is_number = !number.empty() && number.size() < 5 && number.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || number.front() == '0')
    throw InputError(fmt::format("{}: '{}' does not end in a number of segments, \"PATTERN:3\"", key, shortened(text)));
  return {text.substr(0, colon), std::stoll(number)};
}

std::string key_of(SplitKind kind) {
  return kind == SplitKind::columns ? "model.tp_columns" : kind == SplitKind::rows ? "model.tp_rows" : "model.tp_vocabulary";
}

const std::string& module_of(const ExportedNode& node) {
  static const std::string none;
  return node.modules.empty() ? none : node.modules.back();
}

bool is_linear(const ExportedNode& node) { return node.target == kLinear || node.target == kAddmm; }

/// Names of a layer's arguments.
struct LayerArguments {
  const char* input = "input";
  const char* weight = "weight";
  const char* bias = "bias";
};

LayerArguments arguments_of(const ExportedNode& node) {
  if (node.target == kAddmm) return {"mat1", "mat2", "self"};
  return {.input = node.target == kEmbedding ? "indices" : "input"};
}

const ExportedArgument* weight_of(const ExportedNode& node) { return argument_named(node, arguments_of(node).weight); }

/// Whether the argument is left out, or 1.
bool is_one(const ExportedArgument* factor) {
  return factor == nullptr || factor->kind == ExportedArgument::Kind::none || factor->integers == std::vector<int64_t>{1} ||
         factor->numbers == std::vector<double>{1.0};
}

}  // namespace

SplitFlow::SplitFlow(const ExportedGraph& graph, const std::vector<BoundNode>& bound, const ValueFlow& flow,
                     const FileTensors& tensors, const SplitPatterns& patterns)
    : graph_(graph), bound_(bound), flow_(flow), tensors_(tensors) {
  for (const ExportedState& state : graph.states) held_.insert(state.value);
  claim(SplitKind::columns, patterns.columns);
  claim(SplitKind::rows, patterns.rows);
  claim(SplitKind::vocabulary, patterns.vocabulary);
  if (layers_.empty()) return;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (bound[i].kind == BoundNode::Kind::call) pass(i);
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const SplitForm* const divided = form(graph.outputs[i]);
    if (divided == nullptr || (i == 0 && divided->is_padded)) continue;
    throw InputError(fmt::format(
        "{}: its output '{}' is divided over the ranks of tp; split the layer of the logits by model.tp_vocabulary, "
        "and end each pair of layers by model.tp_rows",
        graph.path, shortened(graph.outputs[i])));
  }
}

void SplitFlow::claim(SplitKind kind, const std::string& patterns) {
  const std::string key = key_of(kind);
  for (const std::string& text : patterns_in(patterns)) {
    const LayerPattern pattern = pattern_of(key, text);
    if (pattern.segments > 1 && kind != SplitKind::columns)
      throw InputError(fmt::format("{}: '{}': only model.tp_columns takes segments", key, shortened(text)));
    bool is_found = false;
    std::vector<std::string> others;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const ExportedNode& node = graph_.nodes[i];
      if (!is_linear(node) && (node.target != kEmbedding || kind == SplitKind::rows)) continue;
      others.push_back(module_of(node));
      if (!matches_path(pattern.path, module_of(node))) continue;
      claim(i, kind, pattern.segments);
      is_found = true;
    }
    if (is_found) continue;
    throw InputError(fmt::format("{}: '{}' matches no {} of {}; it has {}", key, shortened(pattern.path),
                                 kind == SplitKind::rows ? "linear layer" : "linear layer or embedding", graph_.path,
                                 others.empty() ? "none" : some_of(others)));
  }
}

void SplitFlow::claim(size_t i, SplitKind kind, int64_t segments) {
  const ExportedNode& node = graph_.nodes[i];
  if (node.target == kEmbedding && kind != SplitKind::vocabulary)
    refuse_node(graph_, node, "an embedding is split by its entries; put it into model.tp_vocabulary");
  const bool is_transposed = node.target == kAddmm;
  if (is_transposed && kind == SplitKind::vocabulary)
    refuse_node(graph_, node, "its weight is [inputs, outputs], of which weft does not pad the classes; leave it whole");
  if (is_transposed && (!is_one(argument_named(node, "beta")) || !is_one(argument_named(node, "alpha"))))
    refuse_node(graph_, node, fmt::format("{} names it, but it has factors; leave it whole", key_of(kind)));
  const ExportedArgument* const given = argument_named(node, arguments_of(node).input);
  const bool is_whole = given != nullptr && given->values.size() == 1 && graph_.shapes.count(given->values.front()) > 0 &&
                        !graph_.shapes.at(given->values.front()).dims.empty() && node.outputs.size() == 1 &&
                        graph_.shapes.count(node.outputs.front()) > 0;
  if (!is_whole) refuse_node(graph_, node, "its input or output is missing; export it again");
  const Held weight = held(weight_of(node));
  if (weight == nullptr || weight->kind != HeldTensor::Kind::parameter || !weight->name.ends_with(kWeight)) {
    refuse_node(graph_, node,
                fmt::format("{} names it, but its weight is no parameter named \"...weight\"; leave it whole", key_of(kind)));
  }
  const at::Tensor& value = weight->parameter->value;
  if (value.dim() != 2 || value.numel() == 0)
    refuse_node(graph_, node,
                fmt::format("{} names it, but its weight is no matrix of some size; leave it whole", key_of(kind)));
  const int64_t size = value.size((kind == SplitKind::rows) != is_transposed ? 1 : 0);
  if (size % segments != 0)
    refuse_node(graph_, node, fmt::format("{}: its {} outputs are not {} equal segments", key_of(kind), size, segments));
  const Layer layer{.name = weight->name.substr(0, weight->name.size() - kWeight.size()),
                    .kind = kind,
                    .is_transposed = is_transposed,
                    .segments = segments,
                    .length = size / segments};
  const auto [found, is_new] = layers_.emplace(weight, layer);
  if (!is_new && found->second.is_transposed != is_transposed)
    refuse_node(graph_, node,
                fmt::format("its weight '{}' is also that of a transposed layer; leave it whole", shortened(weight->name)));
  if (!is_new && (found->second.kind != kind || found->second.segments != segments))
    refuse_node(graph_, node, fmt::format("two patterns split its weight '{}'", shortened(weight->name)));
}

SplitFlow::Held SplitFlow::held(const ExportedArgument* argument) const {
  const bool is_held =
      argument != nullptr && argument->kind == ExportedArgument::Kind::value && held_.count(argument->values.front()) > 0;
  return is_held ? tensors_.of(argument->values.front()).get() : nullptr;
}

SplitFlow::Layer* SplitFlow::layer_of(const ExportedArgument* weight) {
  const auto found = layers_.find(held(weight));
  return found == layers_.end() ? nullptr : &found->second;
}

const SplitForm* SplitFlow::form(const std::string& value) const {
  const auto found = forms_.find(value);
  return found == forms_.end() ? nullptr : &found->second;
}

std::string SplitFlow::layer_of(const std::string& value) const {
  const int source = form(value)->source;
  const auto found = std::find_if(layers_.begin(), layers_.end(),
                                  [&](const auto& layer) { return sources_.are_joined(layer.second.source, source); });
  return found->second.name;
}

void SplitFlow::pass(size_t i) {
  const ExportedNode& node = graph_.nodes[i];
  Layer* const layer = layer_of(weight_of(node));
  if (layer != nullptr && is_linear(node) && layer->is_transposed == (node.target == kAddmm)) return linear(i, *layer);
  if (layer != nullptr && node.target == kEmbedding) return embedding(i, *layer);
  bool takes_parts = false;
  for (const auto& [name, argument] : node.inputs) {
    for (const std::string& value : argument.values) {
      takes_parts |= form(value) != nullptr;
      const Held tensor = held_.count(value) > 0 ? tensors_.of(value).get() : nullptr;
      if (tensor == nullptr || !is_divided(*tensor)) continue;
      refuse_node(
          graph_, node,
          fmt::format("it reads '{}', which a pattern of model.tp_* splits; leave that layer whole", shortened(tensor->name)));
    }
  }
  if (!takes_parts) return;
  SplitCall call = PartsCall({graph_, flow_, forms_, sources_}, node, bound_[i]).run();
  if (!call.changes.empty() || call.dim >= 0) calls_[i] = std::move(call);
}

bool SplitFlow::is_divided(const HeldTensor& tensor) const {
  if (layers_.count(&tensor) > 0) return true;
  return std::any_of(layers_.begin(), layers_.end(), [&](const auto& layer) {
    return layer.second.kind != SplitKind::rows && tensor.name == layer.second.name + ".bias";
  });
}

void SplitFlow::linear(size_t i, Layer& layer) {
  const ExportedNode& node = graph_.nodes[i];
  const std::string &input = argument_named(node, arguments_of(node).input)->values.front(), &output = node.outputs.front();
  const SplitForm* const given = form(input);
  const bool by_rows = layer.kind == SplitKind::rows;
  const int64_t last = std::ssize(graph_.shapes.at(input).dims) - 1;
  if (given != nullptr && (!by_rows || given->dim != last || given->is_padded)) {
    refuse_node(graph_, node,
                fmt::format("'{}' is divided over the ranks of tp, but the layer takes {}; leave one of them whole",
                            shortened(input), by_rows ? "parts of its last dimension" : "whole rows"));
  }
  check_bias(i, layer);
  SplitCall call{.layer = by_rows ? SplitCall::Layer::rows : SplitCall::Layer::columns,
                 .is_addmm = layer.is_transposed,
                 .name = layer.name};
  if (given != nullptr) {
    if (layer.source >= 0 && layer.segments != given->segments)
      refuse_node(graph_, node, "it is called with parts of different segments; leave it whole");
    layer.segments = given->segments;
    layer.length = graph_.shapes.at(input).dims.back().size / given->segments;
    layer.source = layer.source < 0 ? given->source : sources_.join(layer.source, given->source);
  } else if (by_rows && layer.segments > 1) {
    refuse_node(graph_, node, "it is called with parts of several segments, and with whole rows; leave it whole");
  } else if (layer.source < 0) {
    layer.source = sources_.add(layer.length);
  }
  if (!by_rows) {
    call.changes.push_back(
        {.kind = SplitChange::Kind::copied, .argument = layer.is_transposed ? 1U : 0U, .is_changed = flow_.is_changed(input)});
    forms_[output] = {.dim = std::ssize(graph_.shapes.at(output).dims) - 1,
                      .segments = layer.segments,
                      .source = layer.source,
                      .is_padded = layer.kind == SplitKind::vocabulary};
  }
  calls_[i] = std::move(call);
}

/// The bias is divided with the columns, under the layer's name.
void SplitFlow::check_bias(size_t i, const Layer& layer) const {
  const ExportedNode& node = graph_.nodes[i];
  const ExportedArgument* const given = argument_named(node, arguments_of(node).bias);
  if (given == nullptr || given->kind == ExportedArgument::Kind::none) return;
  const Held bias = held(given);
  const bool is_own = bias != nullptr && bias->kind == HeldTensor::Kind::parameter && bias->name == layer.name + ".bias";
  if (is_own && bias->parameter->value.dim() == 1) return;
  refuse_node(
      graph_, node,
      fmt::format("its bias is not the vector '{0}.bias', a parameter: weft divides it by the name of its weight, '{0}', which "
                  "may be tied to another layer's; leave it whole",
                  shortened(layer.name)));
}

void SplitFlow::embedding(size_t i, Layer& layer) {
  const ExportedNode& node = graph_.nodes[i];
  if (layer.kind != SplitKind::vocabulary)
    refuse_node(graph_, node,
                fmt::format("{} splits its weight, but it is an embedding; use model.tp_vocabulary", key_of(layer.kind)));
  const ExportedArgument* const ids = argument_named(node, "indices");
  if (ids != nullptr && !ids->values.empty() && form(ids->values.front()) != nullptr)
    refuse_node(graph_, node, "its ids are divided over the ranks of tp; leave the layer before it whole");
  for (const std::string name : {"scale_grad_by_freq", "sparse"}) {
    const ExportedArgument* const flag = argument_named(node, name);
    if (flag != nullptr && !flag->integers.empty() && flag->integers.front() != 0)
      refuse_node(graph_, node, fmt::format("{} is not trained in parts; leave it whole", name));
  }
  if (layer.source < 0) layer.source = sources_.add(layer.length);
  calls_[i] = {.layer = SplitCall::Layer::embedding, .name = layer.name};
}

SplitTable SplitFlow::rules() const {
  SplitTable table;
  for (const auto& [held, layer] : layers_) {
    SplitRule rule{.layer = layer.name, .kind = layer.kind, .is_transposed = layer.is_transposed};
    if (layer.kind != SplitKind::vocabulary) {
      if (layer.segments > 1) rule.segments.assign(static_cast<size_t>(layer.segments), layer.length);
      rule.unit = layer.length / sources_.most_ranks(layer.source);
      const char* const what = layer.kind == SplitKind::rows ? "inputs" : "outputs";
      if (rule.unit > 1) rule.unit_name = fmt::format("groups of {} {}", rule.unit, what);
    }
    table.push_back(std::move(rule));
  }
  std::sort(table.begin(), table.end(), [](const SplitRule& a, const SplitRule& b) { return a.layer < b.layer; });
  return table;
}

}  // namespace weft
