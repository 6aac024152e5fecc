#include "weft/exported/exported_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/weights/exported_file.h"
#include "weft/exported/bind_node.h"
#include "weft/exported/exported_array.h"
#include "weft/exported/exported_block.h"
#include "weft/exported/exported_loss.h"
#include "weft/exported/file_tensors.h"

namespace weft {
namespace {

std::vector<int64_t> sizes_behind(const ExportedShape& shape, size_t first) {
  std::vector<int64_t> sizes;
  for (size_t d = first; d < shape.dims.size(); ++d) sizes.push_back(shape.dims[d].size);
  return sizes;
}

const ExportedShape& shape_of(const ExportedGraph& graph, const std::string& value) {
  const auto found = graph.shapes.find(value);
  if (found != graph.shapes.end()) return found->second;
  throw InputError(fmt::format("{}: '{}' has no shape; export it again", graph.path, shortened(value)));
}

const char* kind_of_inputs(const ExportedModelOptions& o) {
  return o.reads_arrays ? "arrays" : o.reads_tokens ? "tokens" : "images";
}

/// Refuses an input that is not what a batch has.
void check_input(const ExportedGraph& graph, const std::string& input, const ExportedModelOptions& o) {
  const ExportedShape& shape = shape_of(graph, input);
  if (shape.dims.empty() || shape.dims.front().factor != 1 || shape.dims.front().symbol.empty()) {
    throw InputError(fmt::format("{}: the batch of '{}' is fixed to {}; export it as {}", o.path, shortened(input),
                                 shape.dims.empty() ? 1 : shape.dims.front().size,
                                 graph.inputs.size() == 1 ? kExportCall : kExportCallOfSeveral));
  }
  const at::ScalarType wanted = o.reads_tokens || (o.reads_arrays && shape.type == at::kLong) ? at::kLong : at::kFloat;
  const bool is_narrow = shape.type == graph.narrow_type && shape.type != at::ScalarType::Undefined;
  if (shape.type != wanted && (o.reads_tokens || !is_narrow)) {
    throw InputError(
        fmt::format("{}: it takes {}, but model.inputs = \"{}\" gives {}; set model.inputs, or export it with such an "
                    "example",
                    o.path, c10::toString(shape.type), kind_of_inputs(o), c10::toString(wanted)));
  }
  const std::vector<int64_t> sample = sizes_behind(shape, 1);
  if (o.sample_shape.empty() || sample == o.sample_shape) return;
  throw InputError(
      fmt::format("{}: it takes samples of [{}], but the recipe's are [{}]; set {}, or export it with such an example", o.path,
                  fmt::join(sample, ", "), fmt::join(o.sample_shape, ", "),
                  o.reads_tokens ? "model.context" : "model.channels and model.image_size"));
}

/// Refuses a program that does not take what a batch has.
void check_inputs(const ExportedGraph& graph, const ExportedModelOptions& o) {
  if (graph.inputs.empty()) throw InputError(fmt::format("{}: it takes no input; export a model of a batch", o.path));
  if (graph.inputs.size() > 1 && !o.reads_arrays) {
    throw InputError(fmt::format("{}: it takes {} inputs, but model.inputs = \"{}\" gives one; set model.inputs = \"arrays\"",
                                 o.path, graph.inputs.size(), kind_of_inputs(o)));
  }
  for (const std::string& input : graph.inputs) check_input(graph, input, o);
  const std::string& first = graph.inputs.front();
  for (const std::string& input : graph.inputs) {
    if (shape_of(graph, input).dims.front().symbol == shape_of(graph, first).dims.front().symbol) continue;
    throw InputError(fmt::format("{}: '{}' and '{}' may differ in their number of samples; export it as {}", o.path,
                                 shortened(first), shortened(input), kExportCallOfSeveral));
  }
}

/// Refuses one that was exported as it evaluates: flags in the file are those of its modules.
void check_mode(const ExportedGraph& graph) {
  bool has_flag = false, trains = false;
  for (const ExportedNode& node : graph.nodes) {
    for (const auto& [name, flag] : node.inputs) {
      if (!is_mode(name) || flag.integers.empty()) continue;
      has_flag = true;
      trains |= flag.integers.front() != 0;
    }
  }
  if (!has_flag || trains) return;
  throw InputError(
      fmt::format("{}: it was exported in evaluation mode, so its dropout and BatchNorm would never train; call model.train() "
                  "before {}, or, to keep every BatchNorm frozen, put torchvision's FrozenBatchNorm2d in their place",
                  graph.path, kExportCall));
}

void check_output(const ExportedGraph& graph, const ExportedModelOptions& o) {
  if (graph.outputs.empty())
    throw InputError(fmt::format("{}: it returns nothing; export a model that returns logits", o.path));
  const ExportedShape& logits = shape_of(graph, graph.outputs.front());
  const size_t dims = o.reads_tokens ? 3 : 2;
  if (o.classes == 0) return;
  if (logits.dims.size() != dims) {
    throw InputError(
        fmt::format("{}: its first output has {} dimensions, the loss needs logits [{}]; export a model that returns "
                    "them first",
                    o.path, logits.dims.size(), o.reads_tokens ? "samples, tokens, vocabulary" : "samples, classes"));
  }
  const ExportedDim &samples = shape_of(graph, graph.inputs.front()).dims.front(), &first = logits.dims.front();
  const bool has_tokens =
      !o.reads_tokens || o.sample_shape.empty() || (logits.dims[1].symbol.empty() && logits.dims[1].size == o.sample_shape[0]);
  if (first.symbol != samples.symbol || first.factor != 1 || !has_tokens) {
    throw InputError(fmt::format("{}: its first output is not [{}]; export a model that returns logits so", o.path,
                                 o.reads_tokens ? "samples, tokens, vocabulary" : "samples, classes"));
  }
  if (logits.dims.back().size == o.classes) return;
  throw InputError(fmt::format("{}: its logits are of {}; set model.{} = {} (here: {})", o.path, logits.dims.back().size,
                               o.reads_tokens ? "vocabulary" : "classes", logits.dims.back().size, o.classes));
}

/// A block before it is known which others use its parameters.
struct DraftBlock {
  BlockOperations operations;
  std::vector<std::shared_ptr<HeldTensor>> held, owned;
  std::set<int> uses;
};

/// Takes a tensor into a block: the first that reads it describes it.
void take(const std::shared_ptr<HeldTensor>& held, int block, const std::string& path, DraftBlock& draft) {
  using Kind = HeldTensor::Kind;
  draft.held.push_back(held);
  if (held->owner < 0) {
    held->owner = block;
    if (held->kind != Kind::constant) draft.owned.push_back(held);
  }
  if (held->owner == block || held->kind == Kind::constant) return;
  if (held->kind == Kind::parameter) {
    draft.uses.insert(held->owner);
    return;
  }
  if (held->kind == Kind::statistic) {
    throw InputError(fmt::format(
        "{}: two blocks update the running statistic '{}'; set model.blocks = \"auto\", or cut the model so that one does",
        path, held->name));
  }
  throw InputError(
      fmt::format("{}: two blocks read the buffer '{}', which checkpoints keep and which has several names; register it once, "
                  "or with persistent=False",
                  path, held->name));
}

std::vector<DraftBlock> drafts_of(const ExportedGraph& graph, const FileTensors& tensors, const ExportedModelOptions& o,
                                  SplitTable& rules) {
  const std::vector<BoundNode> bound = bind_nodes(graph);
  const ValueFlow flow(graph, bound);
  const SplitFlow splits(graph, bound, flow, tensors, o.splits);
  rules = splits.rules();
  const std::vector<NodeRange> ranges = cut_graph(graph, flow, o.blocks);
  std::vector<DraftBlock> drafts(ranges.size());
  for (size_t b = 0; b < ranges.size(); ++b) {
    const bool is_last = b + 1 == ranges.size();
    const std::vector<std::string> inputs = b == 0 ? graph.inputs : flow.live_at(ranges[b].first);
    if (inputs.empty()) {
      throw InputError(
          fmt::format("{}: nothing before block '{}' reaches it; cut elsewhere (model.blocks)", graph.path, ranges[b].name));
    }
    drafts[b].operations = block_operations(graph, bound, flow, splits, ranges[b], inputs,
                                            is_last ? graph.outputs : flow.live_at(ranges[b + 1].first));
    for (const auto& [slot, value] : drafts[b].operations.held)
      take(tensors.of(value), static_cast<int>(b), graph.path, drafts[b]);
  }
  if (drafts.empty()) throw InputError(fmt::format("{}: it has no operators; export a model", graph.path));
  for (const std::shared_ptr<HeldTensor>& held : tensors.all()) {  // what nothing reads is kept with the weights
    if (held->owner < 0 && held->kind != HeldTensor::Kind::constant) {
      held->owner = static_cast<int>(drafts.size()) - 1;
      drafts.back().owned.push_back(held);
    }
  }
  return drafts;
}

}  // namespace

Model exported_model(const ExportedModelOptions& o) {
  ExportedFile file(o.path);
  const ExportedGraph graph = read_graph(file.program(), o.path);
  check_inputs(graph, o);
  check_output(graph, o);
  check_mode(graph);
  ExportedLoss loss = exported_loss(graph, o);
  const FileTensors tensors(graph, file);
  Model model{.name = "exported",
              .blocks = {},
              .loss = std::move(loss.loss),
              .hits = std::move(loss.hits),
              .top5 = std::move(loss.top5),
              .options = {model_option("name", "exported"),
                          model_option("graph", fmt::format("{:016x}", tensors.digest(graph.digest)))}};
  model.options.insert(model.options.end(), loss.options.begin(), loss.options.end());
  model.file = o.path;
  model.file_state = file.state();
  for (DraftBlock& draft : drafts_of(graph, tensors, o, model.splits)) {
    const std::string name = draft.operations.name;
    model.output_layer = draft.operations.split_output;  // of the last block
    model.blocks.push_back({name, "",
                            exported_block(std::move(draft.operations), std::move(draft.held), std::move(draft.owned)),
                            std::vector<int>(draft.uses.begin(), draft.uses.end())});
  }
  if (!model.output_layer->empty() && !model.loss.takes_parts()) {
    throw InputError(fmt::format(
        "model.tp_vocabulary: '{}' makes the logits, whose loss takes parts only as cross entropy of tokens; leave it whole",
        *model.output_layer));
  }
  return model;
}

ExportedArrays exported_arrays(const ExportedModelOptions& o) {
  ExportedFile file(o.path);
  const ExportedGraph graph = read_graph(file.program(), o.path);
  check_inputs(graph, o);
  check_output(graph, o);
  ExportedLoss loss = exported_loss(graph, o);
  ExportedArrays arrays{.inputs = {}, .names = graph.inputs, .target = std::move(loss.target), .classes = loss.classes};
  for (const std::string& input : graph.inputs) {
    arrays.inputs.push_back(array_of(graph, input, fmt::format("its input '{}'", shortened(input))));
  }
  return arrays;
}

ExportedSize exported_size(const std::string& path) {
  ExportedFile file(path);
  const ExportedGraph graph = read_graph(file.program(), path);
  ExportedSize size;
  constexpr double kBytes = 16.0;  // a value and its gradient, at most 8 bytes each
  for (const auto& [name, shape] : graph.shapes) {
    double numel = 1.0;
    for (const ExportedDim& dim : shape.dims)
      numel *= static_cast<double>(dim.symbol.empty() ? dim.size : std::max<int64_t>(1, dim.factor));
    size.sample_bytes += kBytes * numel;
  }
  for (const auto& [name, tensor] : file.weights()) {
    double numel = 1.0;
    for (const int64_t dim : tensor.shape) numel *= static_cast<double>(dim);
    size.weights += numel;
  }
  return size;
}

}  // namespace weft
